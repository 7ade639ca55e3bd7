/*
 * golden.h: reads golden data: results of PyTorch, Python and NumPy. The scripts in
 * tests/golden/make/ write it into tests/golden/data/, so that a test that compares with it needs
 * no Python. The test defines the meaning of a case.
 *
 * All files have one form. A file is a list of cases, and the first character of a line gives the
 * line's kind:
 *
 *     # layers.txt: made by layers.py with PyTorch 2.13.0.      a remark, which is skipped
 *     = linear.y 5,3                                            a case begins: its name, then words
 *     : 0.5 -0x1.8p-1 nan                                       its numbers
 *     > tensor([0.5000,                                         its text, line by line
 *     >         1.2500])
 *
 * A file may use more letters, which the script that writes it explains. The functions abort the
 * test if the data doesn't have the form that they require.
 */
#pragma once

#include "tensor/tensor.h"

typedef struct golden_file {
    char path[512];
    char *text; /* The whole file, which is cut up in place. */
    char *at;   /* The begin of the next line. */
    int line;   /* The number of the last line that was read. */
} golden_file;

/* Returns tests/golden/data, or the folder that the environment names as REGARD_GOLDEN. */
const char *golden_folder(void);
/* Opens folder/name.txt, and returns false if it cannot be read. */
bool golden_open_in(golden_file *f, const char *folder, const char *name);
/* Opens name.txt in golden_folder(), and aborts the test if it cannot be read. */
golden_file golden_open(const char *name);
/* Opens file.txt at the lines of the case whose name the format gives. */
golden_file golden_find(const char *file, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void golden_close(golden_file *f);

/* Returns the first character of the next line, or '\0' at the end of the file. */
char golden_peek(golden_file *f);
/* Returns the next line, or NULL at the end of the file. */
char *golden_line(golden_file *f);
/* Goes to the next case and returns the words of its first line, or NULL if there is none. */
char *golden_case(golden_file *f);
/* Returns the next line without its first character, which must be `kind`. */
char *golden_field(golden_file *f, char kind);
/* Returns the lines of text that come next, joined by newlines; "" if there are none. */
char *golden_text(golden_file *f);

/* Each of these takes one word from the front of a line; golden_word returns "" at its end. */
char *golden_word(char **at);
double golden_number(char **at);
int64_t golden_integer(char **at);
uint64_t golden_bits(char **at);
/* Reads the integers of the next line, which must be of this kind, and returns their number. */
int64_t golden_integers(golden_file *f, char kind, int64_t *v, int64_t most);
/* Returns the text of a word in double quotes, in which \ooo stands for a byte. */
char *golden_quoted(char **at);
/* Returns whether nothing but blanks is left of a line. */
bool golden_at_end(const char *at);

/* Reads "2,3"; "." and "-" have no dims. */
rg_dims golden_dims(const char *word);
/* Reads f32, f64, i64, b or bool. */
rg_dtype golden_dtype(const char *word);
const char *golden_dtype_name(rg_dtype dtype);
