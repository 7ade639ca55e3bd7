/*
 * record.h: a record of a report, a line of JSON, between report.c, which appends it to the file,
 * and tensors.c, which makes those of tensors. Private.
 */
#pragma once

#include "report.h"
#include "tensor/handle.h"
#include "tensor/text/text.h"

/* Begins a record: a newline, and an array whose first items are its kind, its name and its step.
 */
void rgi_record_begin(rg_text *record, const char *kind, const char *name, int64_t step);
/* Add a text in double quotes, or a number, to a record. JSON has neither NaN nor infinities: they
 * are null, 1e999 and -1e999, which a script reads as infinities. */
void rgi_record_text(rg_text *record, const char *text);
void rgi_record_double(rg_text *record, double v);
/* Returns whether r is a report, and name a text, and nothing is being recorded. */
bool rgi_report_given(const rg_report *r, const char *name, const char *op);
/* Appends the records to the file, and frees them. Returns false on failure. */
bool rgi_report_append(rg_report *r, const char *op, rg_text *records);
