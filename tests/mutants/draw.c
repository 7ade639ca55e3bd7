/*
 * draw.c: plants one fault in the library's source, for `make mutants`.
 *
 *     draw SEED INDEX TO FILE..
 *
 * finds every place in the functions of these files at which a fault can be planted, draws one of
 * them, and writes its file with the fault to TO. Prints the number of places, the file, the line
 * of the fault, its kind, and the first and last line of its function. Comments, strings, lines of
 * the preprocessor and tables outside functions get no fault. The layout of clang-format is
 * assumed: an operator with two operands has blanks around it.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 1 << 17, MOST_NESTED = 256, MOST_TEXT = 1 << 14, MOST_ARGUMENTS = 32 };

typedef struct {
    const char *at;
    int length, line;
    char kind; /* 'i' identifier, 'n' number, 't' text, 'o' operator */
    int match; /* The index of the bracket that belongs to this one; 0 if there is none. */
} token;

static token tokens[MOST_TOKENS];
static int n_tokens;

/* The file that is searched, and the lines of the function in which `offer` is called. */
static const char *path, *source;
static int first_line, last_line;

/* The number of places that were found, and the place that gets its fault. */
static long found, wanted = -1;
static const char *to;

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool is(int i, const char *text) {
    return i >= 0 && i < n_tokens && tokens[i].length == (int)strlen(text)
           && !strncmp(tokens[i].at, text, strlen(text));
}

static bool is_any(int i, const char *const list[]) {
    for (; *list; list++)
        if (is(i, *list))
            return true;
    return false;
}

/* Returns the end of the text at p: of a comment, a string, or a line of the preprocessor. */
static const char *end_of_comment(const char *p) {
    if (p[1] == '/')
        return p + strcspn(p, "\n");
    const char *end = strstr(p + 2, "*/");
    return end ? end + 2 : p + strlen(p);
}
static const char *end_of_text(const char *p) {
    const char quote = *p++;
    while (*p && *p != quote)
        p += *p == '\\' && p[1] ? 2 : 1;
    return *p ? p + 1 : p;
}
static const char *end_of_directive(const char *p) {
    while (*p && *p != '\n') {
        if (*p == '/' && p[1] == '*')
            p = end_of_comment(p);
        else
            p += *p == '\\' && p[1] ? 2 : 1;
    }
    return p;
}

static const char *const operators[] = { "<<=", ">>=", "...", "->", "++", "--", "<<", ">>",
                                         "<=",  ">=",  "==",  "!=", "&&", "||", "+=", "-=",
                                         "*=",  "/=",  "%=",  "&=", "|=", "^=", "##", NULL };

static int length_of_operator(const char *p) {
    for (const char *const *o = operators; *o; o++)
        if (!strncmp(p, *o, strlen(*o)))
            return (int)strlen(*o);
    return 1;
}

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static const char *end_of_number(const char *p) {
    while (in_word(*p) || *p == '.' || ((*p == '+' || *p == '-') && strchr("eEpP", p[-1])))
        p++;
    return p;
}

/* Returns the end of the token at p, and sets *kind. */
static const char *end_of_token(const char *p, char *kind) {
    const char *end = p;
    if (isdigit((unsigned char)*p) || (*p == '.' && isdigit((unsigned char)p[1]))) {
        *kind = 'n';
        return end_of_number(p);
    }
    *kind = 'i';
    while (in_word(*end))
        end++;
    if (end > p)
        return end;
    *kind = *p == '"' || *p == '\'' ? 't' : 'o';
    return *kind == 't' ? end_of_text(p) : p + length_of_operator(p);
}

/* Returns the end of what lies between tokens. */
static const char *skip(const char *p, bool at_begin) {
    for (;; at_begin = at_begin || p[-1] == '\n') {
        if (isspace((unsigned char)*p))
            p++;
        else if (*p == '/' && (p[1] == '*' || p[1] == '/'))
            p = end_of_comment(p);
        else if (*p == '#' && at_begin)
            p = end_of_directive(p);
        else
            return p;
    }
}

static void match_brackets(void) {
    int open[MOST_NESTED], n = 0;
    for (int i = 0; i < n_tokens; i++) {
        if (is(i, "(") || is(i, "[") || is(i, "{")) {
            if (n < MOST_NESTED)
                open[n++] = i;
        } else if ((is(i, ")") || is(i, "]") || is(i, "}")) && n > 0) {
            tokens[i].match = open[--n];
            tokens[open[n]].match = i;
        }
    }
}

static void read_tokens(void) {
    n_tokens = 0;
    int line = 1;
    const char *counted = source;
    for (const char *p = skip(source, true); *p && n_tokens < MOST_TOKENS; p = skip(p, false)) {
        token *t = &tokens[n_tokens++];
        for (; counted < p; counted++)
            line += *counted == '\n';
        *t = (token){ .at = p, .line = line };
        p = end_of_token(p, &t->kind);
        t->length = (int)(p - t->at);
    }
    match_brackets();
}

/* ---- faults ---------------------------------------------------------------------------------- */

static const char *end_at(int i) { return tokens[i].at + tokens[i].length; }

/* Counts a place. If it is the one that is wanted, writes the file with `text` in place of what is
 * between `from` and `end`. */
static void offer(const char *kind, int line, const char *from, const char *end, const char *text) {
    if (found++ != wanted)
        return;
    FILE *f = fopen(to, "w");
    if (!f)
        exit(1);
    fwrite(source, 1, (size_t)(from - source), f);
    fputs(text, f);
    for (const char *p = from; p < end; p++)
        if (*p == '\n' && !strchr(text, '\n'))
            fputc('\n', f);
    fputs(end, f);
    if (fclose(f))
        exit(1);
    printf("%s %d %s %d %d\n", path, line, kind, first_line, last_line);
}

static void offer_token(const char *kind, int i, const char *text) {
    offer(kind, tokens[i].line, tokens[i].at, end_at(i), text);
}

static const struct {
    const char *kind, *from, *to;
} swaps[] = {
    { "comparison", "<", "<=" },     { "comparison", "<=", "<" },     { "comparison", ">", ">=" },
    { "comparison", ">=", ">" },     { "comparison", "<", ">" },      { "comparison", "<=", ">=" },
    { "comparison", ">", "<" },      { "comparison", ">=", "<=" },    { "comparison", "==", "!=" },
    { "comparison", "!=", "==" },    { "arithmetic", "+", "-" },      { "arithmetic", "-", "+" },
    { "arithmetic", "*", "/" },      { "arithmetic", "/", "*" },      { "arithmetic", "%", "/" },
    { "arithmetic", "<<", ">>" },    { "arithmetic", ">>", "<<" },    { "arithmetic", "&", "|" },
    { "arithmetic", "|", "&" },      { "arithmetic", "^", "&" },      { "arithmetic", "+=", "-=" },
    { "arithmetic", "-=", "+=" },    { "arithmetic", "*=", "/=" },    { "arithmetic", "/=", "*=" },
    { "arithmetic", "|=", "&=" },    { "arithmetic", "&=", "|=" },    { "arithmetic", "++", "--" },
    { "arithmetic", "--", "++" },    { "logic", "&&", "||" },         { "logic", "||", "&&" },
    { "constant", "true", "false" }, { "constant", "false", "true" },
};

/* Without blanks around it, such a token is a sign, an address or a pointer. */
static bool has_two_operands(int i) {
    return isspace((unsigned char)tokens[i].at[-1]) && isspace((unsigned char)*end_at(i));
}

static void swap_token(int i) {
    const bool step = is(i, "++") || is(i, "--") || tokens[i].kind == 'i';
    if (!step && !has_two_operands(i))
        return;
    for (size_t s = 0; s < sizeof swaps / sizeof *swaps; s++)
        if (is(i, swaps[s].from))
            offer_token(swaps[s].kind, i, swaps[s].to);
}

static void change_number(int i) {
    char text[256];
    if (tokens[i].kind != 'n' || tokens[i].length > 200)
        return;
    snprintf(text, sizeof text, "(%.*s + 1)", tokens[i].length, tokens[i].at);
    offer_token("constant", i, text);
    snprintf(text, sizeof text, "(%.*s - 1)", tokens[i].length, tokens[i].at);
    if (!is(i, "0"))
        offer_token("constant", i, text);
}

static void negate(int i) {
    char text[MOST_TEXT];
    if (is(i, "!"))
        offer_token("negation", i, "");
    const int close = is(i + 1, "(") ? tokens[i + 1].match : 0;
    if (!close || !(is(i, "if") || is(i, "while")))
        return;
    const char *from = end_at(i + 1);
    const int length = (int)(tokens[close].at - from);
    if (length > MOST_TEXT - 8)
        return;
    snprintf(text, sizeof text, "!(%.*s)", length, from);
    offer("negation", tokens[i].line, from, tokens[close].at, text);
}

static const char *const keywords[] = { "if",     "for",      "while",  "switch", "return",
                                        "sizeof", "case",     "do",     "else",   "goto",
                                        "break",  "continue", "static", "const",  NULL };
static const char *const before_statements[] = { ";", "{", "}", ")", "else", "do", ":", NULL };
static const char *const in_statements[] = { "(",  "=",  "->", ".",  "[",  "+=",  "-=",  "*=", "/=",
                                             "|=", "&=", "^=", "++", "--", "<<=", ">>=", NULL };

/* Returns the index of the semicolon that ends the statement at i, or 0 if it is none. */
static int end_of_statement(int i) {
    bool assigns = false;
    for (; i < n_tokens; i++) {
        if (is(i, ";"))
            return i;
        if (is(i, ")") || is(i, "]") || is(i, "}") || (is(i, "{") && !assigns))
            return 0;
        assigns = assigns || is(i, "=");
        if (is(i, "(") || is(i, "[") || is(i, "{"))
            i = tokens[i].match;
        if (!i)
            return 0;
    }
    return 0;
}

static void drop_statement(int i) {
    if (tokens[i].kind != 'i' || !is_any(i - 1, before_statements))
        return;
    const bool jump = (is(i, "break") || is(i, "continue")) && is(i + 1, ";");
    if (!jump && (is_any(i, keywords) || !is_any(i + 1, in_statements)))
        return;
    const int end = end_of_statement(i);
    if (end)
        offer("statement", tokens[i].line, tokens[i].at, tokens[end].at, "");
}

/* Exchanges the texts of tokens [a, b) and [b + 1, c), where b is a comma. */
static void swap_two(int a, int b, int c) {
    char text[MOST_TEXT];
    const char *one = tokens[a].at, *other = tokens[b + 1].at;
    const int n = (int)(end_at(b - 1) - one), m = (int)(end_at(c - 1) - other);
    if (n + m > MOST_TEXT - 8 || (n == m && !strncmp(one, other, (size_t)n)))
        return;
    snprintf(text, sizeof text, "%.*s, %.*s", m, other, n, one);
    offer("arguments", tokens[a].line, one, end_at(c - 1), text);
}

/* Functions whose first two arguments can be exchanged without a change of the result. */
static const char *const commuting[] = {
    "fma",    "fmaf",       "fmin",       "fmax",           "RG_MIN",        "RG_MAX", "rg_add",
    "rg_mul", "rg_maximum", "rg_minimum", "rg_logical_and", "rg_logical_or", NULL
};

static void swap_arguments(int i) {
    if (tokens[i].kind != 'i' || !is(i + 1, "(") || !tokens[i + 1].match || is_any(i, keywords))
        return;
    const int close = tokens[i + 1].match;
    int begin[MOST_ARGUMENTS], n = 0;
    begin[n++] = i + 2;
    for (int k = i + 2; k < close && n < MOST_ARGUMENTS - 1; k++) {
        if (is(k, ","))
            begin[n++] = k + 1;
        else if (tokens[k].match > k)
            k = tokens[k].match;
    }
    begin[n] = close + 1;
    for (int k = is_any(i, commuting) ? 1 : 0; k + 1 < n; k++)
        swap_two(begin[k], begin[k + 1] - 1, begin[k + 2] - 1);
}

static void find_in_function(int open, int close) {
    last_line = tokens[close].line;
    for (int i = open + 1; i < close; i++) {
        swap_token(i);
        change_number(i);
        negate(i);
        drop_statement(i);
        swap_arguments(i);
    }
}

/* A function's body is a brace that follows a parenthesis outside all other brackets. */
static void find_in_file(void) {
    read_tokens();
    int begin = 0;
    for (int i = 0; i < n_tokens; i++) {
        const bool body = is(i, "{") && is(i - 1, ")") && tokens[i].match;
        first_line = tokens[begin].line;
        if (body)
            find_in_function(i, tokens[i].match);
        if (tokens[i].match > i)
            i = tokens[i].match;
        if (body || is(i, ";"))
            begin = i + 1;
    }
}

/* ---- the draw -------------------------------------------------------------------------------- */

static char *read_file(const char *name) {
    FILE *f = fopen(name, "r");
    if (!f) {
        fprintf(stderr, "draw: %s can't be read\n", name);
        exit(1);
    }
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    rewind(f);
    char *text = malloc((size_t)size + 2);
    if (!text || fread(text + 1, 1, (size_t)size, f) != (size_t)size)
        exit(1);
    fclose(f);
    text[0] = '\n'; /* Each character has one before it. */
    text[size + 1] = '\0';
    return text;
}

static void find_in_files(int n, char **names) {
    found = 0;
    for (int i = 0; i < n; i++) {
        char *text = read_file(names[i]);
        path = names[i];
        source = text + 1;
        find_in_file();
        free(text);
    }
}

/* SplitMix64: a random number for each seed and index. */
static uint64_t random_of(uint64_t seed, uint64_t index) {
    uint64_t z = seed * 0xd1342543de82ef95u + index * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "use: draw SEED INDEX TO FILE..\n");
        return 2;
    }
    to = argv[3];
    find_in_files(argc - 4, argv + 4);
    if (!found) {
        fprintf(stderr, "draw: there is no place for a fault in these files\n");
        return 1;
    }
    printf("%ld ", found);
    wanted =
        (long)(random_of(strtoull(argv[1], NULL, 0), strtoull(argv[2], NULL, 0)) % (uint64_t)found);
    find_in_files(argc - 4, argv + 4);
    return 0;
}
