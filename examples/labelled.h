/*
 * labelled.h: sentences with labels, from a file whose lines are a label, a tab, and a sentence.
 */
#pragma once

#include "model_folder.h"

/* n sentences, the number of the label of each, and the names of the labels. */
typedef struct {
    int n, n_labels;
    const char **texts, **labels;
    int64_t *label;
} lesson;

static inline lesson room_for(size_t n) {
    const lesson l = { .texts = calloc(n + 1, sizeof *l.texts),
                       .labels = calloc(n + 1, sizeof *l.labels),
                       .label = calloc(n + 1, sizeof *l.label) };
    if (!l.texts || !l.labels || !l.label)
        refuse("no memory for the sentences");
    return l;
}

static inline int label_of(lesson *l, const char *name) {
    for (int i = 0; i < l->n_labels; i++)
        if (strcmp(l->labels[i], name) == 0)
            return i;
    l->labels[l->n_labels] = name;
    return l->n_labels++;
}

static inline lesson read_lesson(const char *path) {
    rg_names lines = rg_load_lines(path);
    lesson l = room_for((size_t)lines.n);
    for (int i = 0; i < lines.n; i++) {
        const char *tab = strchr(lines.v[i], '\t');
        if (!tab)
            refuse("'%s': line %d has no tab behind a label", path, i + 1);
        l.label[i] = label_of(&l, joined("%.*s", (int)(tab - lines.v[i]), lines.v[i]));
        l.texts[l.n++] = tab + 1;
    }
    if (l.n_labels < 2)
        refuse("'%s': the number of labels is %d, and learning takes two or more", path,
               l.n_labels);
    return l;
}
