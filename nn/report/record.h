/*
 * record.h: the functions by which report.c and tensors.c write records. A record is one line of a
 * report's file, a JSON array of what was reported by one call. report.c appends records to the
 * file; tensors.c makes the records that show tensors. Private.
 */
#pragma once

#include "report.h"
#include "tensor/handle.h"
#include "tensor/text/text.h"

/* Begins a record: appends a newline, "[" and the record's first elements: its kind ("number",
 * "picture" or "histogram"), its name and its step. The caller appends the other elements and "]".
 */
void rgi_record_begin(rg_text *record, const char *kind, const char *name, int64_t step);
/* rgi_record_text appends a string in double quotes to a record, rgi_record_double a number. JSON
 * has neither NaN nor infinities. NaN is written as null, and infinities as 1e999 and -1e999, which
 * JavaScript reads as infinities.
 */
void rgi_record_text(rg_text *record, const char *text);
void rgi_record_double(rg_text *record, double v);
/* Checks the arguments of a function that reports something. Returns true if r is a report, name
 * isn't NULL, and no training step is being recorded for replays. (A replay couldn't repeat the
 * report; see rgi_may_do_once.) Otherwise fails, and returns false. */
bool rgi_report_given(const rg_report *r, const char *name, const char *op);
/* Appends the records to the report's file, and frees their memory. Returns false on failure. */
bool rgi_report_append(rg_report *r, const char *op, rg_text *records);
