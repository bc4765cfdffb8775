/* Tokens to tree.  Plain LALR(1): binary operators by precedence, everything else by structure; no conflicts.
 * A statement or definition that cannot be read becomes `broken`, and reading goes on after its line or block. */
%define api.pure full
%define api.prefix {dsl}
%define api.token.prefix {TOK_}
%define api.location.type {SrcLoc}
%define parse.error custom
%define parse.lac full
%locations
%param {Parser *p}

%code requires {
#include "frontend/parse.h"
}

%union {
    Token token;
    Name name;
    Expr *expr;
    ExprList exprs;
    Arg arg;
    ArgList args;
    Item item;
    ItemList items;
    Binder binder;
    BinderList binders;
    NameList names;
    Stmt *stmt;
    StmtList stmts;
    Scan *scan;
    ScanSeq seq;
    Train *train;
    Pick pick;
    Init init;
}

%code {
#include "ir/memory.h"
#include <stdlib.h>
#define YYMALLOC memory_alloc
#define YYFREE free
static int dsllex(DSLSTYPE *value, SrcLoc *loc, Parser *p) {
    const int kind = tokens_next(p, &value->token);
    *loc = value->token.loc;
    return kind;
}
static void dslerror(const SrcLoc *loc, Parser *p, const char *message) {
    (void)message; /* the one message that comes this way is that the parser's stack is full */
    tokens_refuse(p, *loc, "constructs nest", MAX_NESTING);
}
static Name name_of(const Token *token) { return (Name){.text = token->text, .loc = token->loc}; }
static void add_top(Parser *p, Top *top) { vec_push(p->arena, p->ast->tops, top); }
static void add_definition(Parser *p, TopKind kind, SrcLoc loc, Name name, ArgList formals, StmtList body);
static Stmt *with_name(Stmt *s, Parser *p, Name name);
static Stmt *with_value(Stmt *s, Parser *p, Expr *value);

#define YYLLOC_DEFAULT(current, rhs, n) \
    ((current) = (n) ? (SrcLoc){.file = YYRHSLOC(rhs, 1).file, .line = YYRHSLOC(rhs, 1).line, \
                                .col = YYRHSLOC(rhs, 1).col, .end_line = YYRHSLOC(rhs, n).end_line, \
                                .end_col = YYRHSLOC(rhs, n).end_col} \
                     : (SrcLoc){.file = YYRHSLOC(rhs, 0).file, .line = YYRHSLOC(rhs, 0).end_line, \
                                .col = YYRHSLOC(rhs, 0).end_col, .end_line = YYRHSLOC(rhs, 0).end_line, \
                                .end_col = YYRHSLOC(rhs, 0).end_col})
}

%token <token> NAME INT FLOAT STRING REDUCE
%token <token> ZEROS ONES TRUE FALSE
%token NEWLINE LPAREN RPAREN LBRACKET RBRACKET LBRACE RBRACE
%token COMMA ASSIGN UPDATE COLON DOT DOTS ELLIPSIS
%token PLUS MINUS STAR SLASH AT CARET EQ NE LT GT LE GE
%token FN PARAM AS AS_LOOP REPEAT EMIT RETURN IF IF_STMT THEN ELSE AND OR NOT
%token DIM LET LAYER OPTIMIZER MODEL USE
%token SCAN CHECKPOINT SAVE RECOMPUTE STATE INPUT OUTPUT PRECISION TRAIN
%token IN OVER AXIS WITH ONLY CLIP_NORM INIT LIKE SHARING HYPER

%precedence IF_EXPR
%left OR
%left AND
%precedence NOT
%nonassoc EQ NE LT GT LE GE
%left PLUS MINUS
%precedence REDUCTION
%left STAR SLASH AT
%precedence NEGATION
%right CARET

%type <name> name output_type
%type <names> names
%type <expr> expr postfix primary default range value opt_expr in_range opt_axis number
%type <exprs> exprs1 exprs shape input_shape
%type <arg> arg formal
%type <args> args args1 formals formals1
%type <item> item
%type <items> items items1
%type <binder> binder
%type <binders> binders binders1
%type <stmt> stmt ifstmt broken repeat times
%type <init> init
%type <stmts> block stmts stmts1
%type <name> as loop_as
%type <scan> scan seqs
%type <seq> seq
%type <train> clauses picks
%type <pick> pick

%%

file:
    %empty
  | file top NEWLINE
  ;

top:
    DIM dims
  | LET lets
  | FN name LPAREN formals RPAREN block         { add_definition(p, TOP_FN, @$, $2, $4, $6); }
  | LAYER name LPAREN formals RPAREN block      { add_definition(p, TOP_LAYER, @$, $2, $4, $6); }
  | OPTIMIZER name LPAREN formals RPAREN block  { add_definition(p, TOP_OPTIMIZER, @$, $2, $4, $6); }
  | MODEL name block                            { add_definition(p, TOP_MODEL, @$, $2, (ArgList){0}, $3); }
  | USE STRING                                  { add_top(p, top_new(p, TOP_USE, @$, name_of(&$2))); }
  | broken                                      { (void)$1; }
  ;

dims: dim | dims COMMA dim ;
dim:
    name ASSIGN expr  { Top *t = top_new(p, TOP_DIM, @$, $1); t->value = $3; add_top(p, t); }
  | name LE expr      { Top *t = top_new(p, TOP_DIM, @$, $1); t->value = $3; t->bounded = true; add_top(p, t); }
  ;
lets: let | lets COMMA let ;
let: name ASSIGN expr { Top *t = top_new(p, TOP_LET, @$, $1); t->value = $3; add_top(p, t); } ;

formals: %empty { $$ = (ArgList){0}; } | formals1 | formals1 COMMA ;
formals1:
    formal                 { $$ = (ArgList){0}; vec_push(p->arena, $$, $1); }
  | formals1 COMMA formal  { $$ = $1; vec_push(p->arena, $$, $3); }
  ;
formal: name default { $$ = (Arg){.name = $1, .value = $2}; } ;
default: %empty { $$ = NULL; } | ASSIGN value { $$ = $2; } ;

block: LBRACE stmts RBRACE { $$ = $2; } ;
stmts: %empty { $$ = (StmtList){0}; } | stmts1 | stmts1 NEWLINE ;
stmts1:
    stmt                 { $$ = (StmtList){0}; if ($1) vec_push(p->arena, $$, $1); }
  | stmts1 NEWLINE stmt  { $$ = $1; if ($3) vec_push(p->arena, $$, $3); }
  ;

broken:
    error                           { $$ = NULL; yyerrok; }
  | error block                     { $$ = NULL; yyerrok; (void)$2; }
  | error block ELSE block          { $$ = NULL; (void)$2, (void)$4; }
  | error block ELSE ifstmt         { $$ = NULL; (void)$2, (void)$4; }
  ;

stmt:
    names ASSIGN exprs1             { $$ = stmt_new(p, STMT_ASSIGN, @$); $$->names = $1; $$->values = $3; }
  | names ASSIGN scan               { $$ = stmt_new(p, STMT_ASSIGN, @$); $$->names = $1; $$->scan = $3; }
  | name LBRACKET binders RBRACKET ASSIGN expr {
        $$ = with_value(with_name(stmt_new(p, STMT_INDEXED, @$), p, $1), p, $6);
        $$->binders = $3;
    }
  | name UPDATE expr                { $$ = with_value(with_name(stmt_new(p, STMT_UPDATE, @$), p, $1), p, $3); }
  | RETURN exprs1                   { $$ = stmt_new(p, STMT_RETURN, @$); $$->values = $2; }
  | EMIT exprs1                     { $$ = stmt_new(p, STMT_EMIT, @$); $$->values = $2; }
  | ifstmt
  | repeat
  | names ASSIGN repeat             { $$ = $3; $$->names = $1; $$->loc = @$; }
  | scan                            { $$ = stmt_new(p, STMT_SCAN, @$); $$->scan = $1; }
  | CHECKPOINT block                { $$ = stmt_new(p, STMT_CHECKPOINT, @$); $$->body = $2; }
  | SAVE names                      { $$ = stmt_new(p, STMT_SAVE, @$); $$->names = $2; }
  | RECOMPUTE names                 { $$ = stmt_new(p, STMT_RECOMPUTE, @$); $$->names = $2; }
  | STATE name ASSIGN expr          { $$ = with_value(with_name(stmt_new(p, STMT_STATE, @$), p, $2), p, $4); }
  | INPUT name COLON name input_shape in_range {
        $$ = with_name(stmt_new(p, STMT_INPUT, @$), p, $2);
        $$->dtype = $4;
        $$->shape = $5;
        $$->range = $6;
    }
  | OUTPUT name output_type         { $$ = with_name(stmt_new(p, STMT_OUTPUT, @$), p, $2); $$->dtype = $3; }
  | OUTPUT name output_type ASSIGN expr {
        $$ = with_value(with_name(stmt_new(p, STMT_OUTPUT, @$), p, $2), p, $5);
        $$->dtype = $3;
    }
  | PRECISION name                  { $$ = with_name(stmt_new(p, STMT_PRECISION, @$), p, $2); }
  | PRECISION name name name        { /* P weights P */
        $$ = with_name(stmt_new(p, STMT_PRECISION, @$), p, $2);
        with_name($$, p, $3);
        with_name($$, p, $4);
    }
  | TRAIN name as WITH name LPAREN args RPAREN clauses {
        $$ = with_name(stmt_new(p, STMT_TRAIN, @$), p, $2);
        $$->as = $3;
        $$->train = $9;
        $$->train->loss = $2;
        $$->train->optimizer = $5;
        $$->train->args = $7;
    }
  | broken
  ;

ifstmt:
    IF_STMT expr block              { $$ = with_value(stmt_new(p, STMT_IF, @$), p, $2); $$->body = $3; }
  | IF_STMT expr block ELSE block   {
        $$ = with_value(stmt_new(p, STMT_IF, @$), p, $2);
        $$->body = $3;
        $$->orelse = $5;
        $$->has_else = true;
    }
  | IF_STMT expr block ELSE ifstmt  {
        $$ = with_value(stmt_new(p, STMT_IF, @$), p, $2);
        $$->body = $3;
        $$->has_else = true;
        vec_push(p->arena, $$->orelse, $5);
    }
  ;

output_type:
    %empty                          { $$ = (Name){0}; }
  | COLON name                      { $$ = $2; }
  ;

input_shape: %empty { $$ = (ExprList){0}; } | shape ;
in_range: %empty { $$ = NULL; } | IN range { $$ = $2; } ;

repeat: REPEAT times loop_as block  { $$ = $2; $$->loc = @$; $$->as = $3; $$->body = $4; } ;
times:
    expr           { $$ = with_value(stmt_new(p, STMT_REPEAT, @$), p, $1); }
  | name IN range  { $$ = with_value(stmt_new(p, STMT_REPEAT, @$), p, $3); $$->index = $1; }
  ;
loop_as: %empty { $$ = (Name){0}; } | AS_LOOP name { $$ = $2; } ;

scan: SCAN seqs block { $$ = $2; $$->body = $3; } ;
seqs:
    seq             { $$ = ARENA_NEW(p->arena, Scan); vec_push(p->arena, $$->seqs, $1); }
  | seqs COMMA seq  { $$ = $1; vec_push(p->arena, $$->seqs, $3); }
  ;
seq:
    name OVER expr opt_axis { $$ = (ScanSeq){.name = $1, .over = $3, .axis = $4}; }
  | name ASSIGN expr        { $$ = (ScanSeq){.name = $1, .init = $3}; }
  ;
opt_axis: %empty { $$ = NULL; } | AXIS expr { $$ = $2; } ;

clauses:
    %empty                  { $$ = ARENA_NEW(p->arena, Train); }
  | clauses ONLY picks      {
        $$ = $1;
        if ($$->only.n) diag_report(p->diag, E0126, @2, "`only` is given twice");
        for (int i = 0; i < $3->only.n; i++) vec_push(p->arena, $$->only, $3->only.at[i]);
    }
  | clauses CLIP_NORM expr  {
        $$ = $1;
        if ($$->clip_norm) diag_report(p->diag, E0126, @2, "`clip_norm` is given twice");
        $$->clip_norm = $3;
    }
  ;
picks:
    pick              { $$ = ARENA_NEW(p->arena, Train); vec_push(p->arena, $$->only, $1); }
  | picks COMMA pick  { $$ = $1; vec_push(p->arena, $$->only, $3); }
  ;
pick:
    STRING                           { $$ = (Pick){.pattern = name_of(&$1)}; }
  | STRING LBRACKET items RBRACKET   { $$ = (Pick){.pattern = name_of(&$1), .items = $3, .sliced = true}; }
  ;

binders: binders1 | binders1 COMMA ;
binders1:
    binder                 { $$ = (BinderList){0}; vec_push(p->arena, $$, $1); }
  | binders1 COMMA binder  { $$ = $1; vec_push(p->arena, $$, $3); }
  ;
binder: name in_range { $$ = (Binder){.name = $1, .range = $2}; } ;

range: expr DOTS expr {
        $$ = expr_new(p, EXPR_RANGE, @$);
        $$->a = $1;
        $$->b = $3;
        expr_done(p, $$);
    } ;
value: expr | range ;

names:
    name              { $$ = (NameList){0}; vec_push(p->arena, $$, $1); }
  | names COMMA name  { $$ = $1; vec_push(p->arena, $$, $3); }
  ;
exprs1:
    expr               { $$ = (ExprList){0}; vec_push(p->arena, $$, $1); }
  | exprs1 COMMA expr  { $$ = $1; vec_push(p->arena, $$, $3); }
  ;
exprs: %empty { $$ = (ExprList){0}; } | exprs1 | exprs1 COMMA ;
shape: LBRACKET exprs RBRACKET { $$ = $2; } ;

args: %empty { $$ = (ArgList){0}; } | args1 | args1 COMMA ;
args1:
    arg              { $$ = (ArgList){0}; args_push(p, &$$, $1); }
  | args1 COMMA arg  { $$ = $1; args_push(p, &$$, $3); }
  ;
arg:
    value              { $$ = (Arg){.value = $1}; }
  | name ASSIGN value  { $$ = (Arg){.name = $1, .value = $3}; }
  ;

items: items1 | items1 COMMA ;
items1:
    item               { $$ = (ItemList){0}; vec_push(p->arena, $$, $1); }
  | items1 COMMA item  { $$ = $1; vec_push(p->arena, $$, $3); }
  ;
item:
    expr                                       { $$ = (Item){.kind = ITEM_INDEX, .index = $1, .loc = @$}; }
  | ELLIPSIS                                   { $$ = (Item){.kind = ITEM_ELLIPSIS, .loc = @$}; }
  | opt_expr COLON opt_expr                    { $$ = (Item){.kind = ITEM_SLICE, .lo = $1, .hi = $3, .loc = @$}; }
  | opt_expr COLON opt_expr COLON opt_expr     {
        $$ = (Item){.kind = ITEM_SLICE, .lo = $1, .hi = $3, .step = $5, .loc = @$};
    }
  ;
opt_expr: %empty { $$ = NULL; } | expr ;

expr:
    postfix
  | IF expr THEN expr ELSE expr %prec IF_EXPR {
        $$ = expr_new(p, EXPR_IF, @$);
        $$->a = $2;
        $$->b = $4;
        $$->c = $6;
        expr_done(p, $$);
    }
  | REDUCE LBRACKET binders RBRACKET expr %prec REDUCTION {
        $$ = expr_new(p, EXPR_REDUCE, @$);
        $$->name = name_of(&$1);
        $$->binders = $3;
        $$->a = $5;
        expr_done(p, $$);
    }
  | ZEROS LIKE postfix  { $$ = expr_new(p, EXPR_LIKE, @$); $$->a = $3; expr_done(p, $$); }
  | ONES LIKE postfix   { $$ = expr_new(p, EXPR_LIKE, @$); $$->integer = 1; $$->a = $3; expr_done(p, $$); }
  | expr OR expr        { $$ = expr_binary(p, AST_OR, @$, $1, $3); }
  | expr AND expr       { $$ = expr_binary(p, AST_AND, @$, $1, $3); }
  | NOT expr            { $$ = expr_unary(p, AST_NOT, @$, $2); }
  | expr EQ expr        { $$ = expr_binary(p, AST_EQ, @$, $1, $3); }
  | expr NE expr        { $$ = expr_binary(p, AST_NE, @$, $1, $3); }
  | expr LT expr        { $$ = expr_binary(p, AST_LT, @$, $1, $3); }
  | expr GT expr        { $$ = expr_binary(p, AST_GT, @$, $1, $3); }
  | expr LE expr        { $$ = expr_binary(p, AST_LE, @$, $1, $3); }
  | expr GE expr        { $$ = expr_binary(p, AST_GE, @$, $1, $3); }
  | expr PLUS expr      { $$ = expr_binary(p, AST_ADD, @$, $1, $3); }
  | expr MINUS expr     { $$ = expr_binary(p, AST_SUB, @$, $1, $3); }
  | expr STAR expr      { $$ = expr_binary(p, AST_MUL, @$, $1, $3); }
  | expr SLASH expr     { $$ = expr_binary(p, AST_DIV, @$, $1, $3); }
  | expr AT expr        { $$ = expr_binary(p, AST_MATMUL, @$, $1, $3); }
  | MINUS expr %prec NEGATION { $$ = expr_unary(p, AST_NEG, @$, $2); }
  | expr CARET expr     { $$ = expr_binary(p, AST_POW, @$, $1, $3); }
  ;

postfix:
    primary
  | postfix LBRACKET items RBRACKET {
        $$ = expr_new(p, EXPR_SUBSCRIPT, @$);
        $$->a = $1;
        $$->items = $3;
        expr_done(p, $$);
    }
  | postfix DOT NAME {
        $$ = expr_new(p, EXPR_METHOD, @$);
        $$->a = $1;
        $$->name = name_of(&$3);
        expr_done(p, $$);
    }
  | postfix DOT NAME LPAREN args RPAREN {
        $$ = expr_new(p, EXPR_METHOD, @$);
        $$->a = $1;
        $$->name = name_of(&$3);
        $$->args = $5;
        $$->has_args = true;
        expr_done(p, $$);
    }
  ;

primary:
    name    { $$ = expr_new(p, EXPR_NAME, @$); $$->name = $1; }
  | number
  | STRING  { $$ = expr_new(p, EXPR_STRING, @$); $$->name = name_of(&$1); }
  | TRUE    { $$ = expr_new(p, EXPR_BOOL, @$); $$->integer = 1; }
  | FALSE   { $$ = expr_new(p, EXPR_BOOL, @$); }
  | LPAREN expr RPAREN { $$ = $2; $$->loc = @$; }
  | LBRACKET exprs RBRACKET { $$ = expr_new(p, EXPR_LIST, @$); $$->list = $2; expr_done(p, $$); }
  | name LPAREN args RPAREN as {
        $$ = expr_new(p, EXPR_CALL, @$);
        $$->name = $1;
        $$->args = $3;
        $$->as = $5;
        expr_done(p, $$);
    }
  | name LPAREN args RPAREN SHARING name {
        $$ = expr_new(p, EXPR_CALL, @$);
        $$->name = $1;
        $$->args = $3;
        $$->sharing = $6;
        expr_done(p, $$);
    }
  | ZEROS shape { $$ = expr_new(p, EXPR_FILL, @$); $$->list = $2; expr_done(p, $$); }
  | ONES shape  { $$ = expr_new(p, EXPR_FILL, @$); $$->integer = 1; $$->list = $2; expr_done(p, $$); }
  | PARAM shape INIT init as {
        $$ = expr_new(p, EXPR_PARAM, @$);
        $$->list = $2;
        $$->name = $4.name;
        $$->args = $4.args;
        $$->as = $5;
        expr_done(p, $$);
    }
  | HYPER number as { $$ = $2; $$->kind = EXPR_HYPER; $$->loc = @$; $$->as = $3; }
  ;

number:
    INT    { $$ = expr_new(p, EXPR_INT, @$); $$->integer = $1.integer; $$->number = $1.number; }
  | FLOAT  { $$ = expr_new(p, EXPR_FLOAT, @$); $$->number = $1.number; }
  ;

init:
    ZEROS                    { $$ = (Init){.name = name_of(&$1)}; }
  | ONES                     { $$ = (Init){.name = name_of(&$1)}; }
  | name                     { $$ = (Init){.name = $1}; }
  | name LPAREN args RPAREN  { $$ = (Init){.name = $1, .args = $3}; }
  ;
as: %empty { $$ = (Name){0}; } | AS name { $$ = $2; } ;
name: NAME { $$ = name_of(&$1); } ;

%%

static void add_definition(Parser *p, TopKind kind, SrcLoc loc, Name name, ArgList formals, StmtList body) {
    Top *top = top_new(p, kind, loc, name);
    top->formals = formals;
    top->body = body;
    add_top(p, top);
}

static Stmt *with_name(Stmt *s, Parser *p, Name name) {
    vec_push(p->arena, s->names, name);
    return s;
}

static Stmt *with_value(Stmt *s, Parser *p, Expr *value) {
    vec_push(p->arena, s->values, value);
    return s;
}

static int token_of_symbol(yysymbol_kind_t symbol) {
    for (int kind = TOK_DSLUNDEF + 1; kind <= TOK_HYPER; kind++)
        if (YYTRANSLATE(kind) == symbol) return kind;
    return TOK_YYEOF;
}

static int yyreport_syntax_error(const yypcontext_t *context, Parser *p) {
    if (!tokens_silent(p)) {
        yysymbol_kind_t symbols[YYNTOKENS];
        int expected[YYNTOKENS];
        const int n = yypcontext_expected_tokens(context, symbols, YYNTOKENS);
        for (int i = 0; i < n; i++) expected[i] = token_of_symbol(symbols[i]);
        syntax_error(p, &p->before_last, &p->last, expected, n);
    }
    tokens_panic(p);
    return 0;
}
