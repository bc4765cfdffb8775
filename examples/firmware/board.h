/* What main.c needs of the machine: a line of text out, and an end. */
#ifndef BOARD_H
#define BOARD_H
void board_print(const char *text);
void board_exit(int status);
#endif
