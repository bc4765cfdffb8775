# A NUL byte: text ends there for C, but not for the file.
printf 'let a = 1\nlet b = \0002\nlet c = 3\n'
