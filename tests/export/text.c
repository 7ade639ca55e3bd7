/*
 * text.c: prints the text of the loops that its arguments name, or of all loops, and then a table
 * of these loops, so that a compiler keeps all of them.
 */
#include "autograd/export/loop_text.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 1024 };

int main(int argc, char **argv) {
    rg_text all = { 0 };
    rg_text text = { 0 };
    const char *names[MOST];
    int count = 0;
    if (argc == 1 && !rgi_loop_names(&all, "text"))
        return 1;
    for (int i = 1; i < argc && count < MOST; i++)
        names[count++] = argv[i];
    for (char *name = all.v ? strtok(all.v, "\n") : NULL; name && count < MOST;
         name = strtok(NULL, "\n"))
        names[count++] = name;
    if (!rgi_loop_text(&text, "text", count, names))
        return 1;
    fputs(text.v, stdout);
    printf("typedef void any_loop(void);\nany_loop *const all_loops[] = {\n");
    for (int i = 0; i < count; i++)
        printf("    (any_loop *)%s,\n", names[i]);
    printf("};\n");
    rgi_text_free(&all);
    rgi_text_free(&text);
    return 0;
}
