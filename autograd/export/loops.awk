# loops.awk: splits preprocessed kernels into items, and prints those that the loops need as the
# archive that the script `loops` describes. Each kernel's text ends with a line "#end".

function fail(sentence) {
    print "autograd/export/loops: " sentence >"/dev/stderr"
    failed = 1
    exit 1
}

# ---- what is written by hand -------------------------------------------------------------------

FILENAME ~ /by_hand/ {
    if (/^@/) {
        by_hand = $0
        sub(/^@[a-z]+ /, "", by_hand)
        if ($1 == "@at") stands[by_hand]
        if ($1 == "@first") order[++firsts] = by_hand
        hand[by_hand] = ""
    } else if (by_hand != "") hand[by_hand] = hand[by_hand] (hand[by_hand] == "" ? "" : "\n") $0
    next
}

# Begins the archive with the items that stand there.
function keep_first(    i) {
    for (i = 1; i <= firsts; i++) {
        items++
        item_names[items] = " " order[i]
        item_text[items] = hand[order[i]]
        item_code[items] = without_comments(hand[order[i]])
        item_is_by_hand[items] = 1
        home[order[i]] = items
        delete hand[order[i]]
    }
    firsts = 0
}

# Returns a text without its comments.
function without_comments(s,    result, p) {
    while ((p = index(s, "/*"))) {
        result = result substr(s, 1, p - 1)
        s = substr(s, index(s, "*/") + 2)
    }
    return result s
}

# ---- lines -------------------------------------------------------------------------------------
# The preprocessor breaks a line where a macro has a pragma, or comes from a header of macros, and
# then repeats the line's number. Such parts are joined again.

function flush() {
    # Clang writes a pragma without the blanks before it.
    if (held ~ /^K_(UNROLL|INDEPENDENT)/) held = blanks(4 * braces) held
    if (held_at != "") split_line(held)
    held = held_at = ""
}

/^#end$/ {
    flush()
    if (text != "" && code != "") fail("an item of " file " has no end: " text)
    text = code = ""
    next
}
/^# [0-9]+ "/ {
    split($0, quoted, "\"")
    file = quoted[2]
    number = $2
    next
}
/^#pragma/ {
    if ($3 ~ /^(visibility|diagnostic)$/) {
        number++
        next
    }
    if ($2 " " $3 == "GCC unroll") $0 = "K_UNROLL(" $4 ")"
    else if ($2 " " $3 == "GCC ivdep") $0 = "K_INDEPENDENT"
    else {
        flush()
        if (code != "") fail("a pragma that has no macro here: " $0)
        number++
        next
    }
}
{
    at = file ":" number++
    if (at == held_at) {
        sub(/^ */, "")
        if (held ~ /[^ ]/) sub(/ *$/, "", held)
        held = held " " $0
        next
    }
    flush()
    held = $0
    held_at = at
}

# ---- items -------------------------------------------------------------------------------------
# `text` is the text of the current item, with the comment before it, and `code` is the same without
# comments and strings. In `text`, a comment is between \001 and \002.

function add(s, is_code) {
    text = text s
    if (is_code) code = code s
}

# Keeps the item, and begins another one.
function end_item() {
    keep_item()
    text = code = first = ""
    braces = parens = 0
}

# Adds a line to the current item, and ends each item that ends in this line.
function split_line(line,    c, p, begins) {
    if (code == "" && !in_comment) {
        if (line !~ /[^ ]/) {
            text = ""
            return
        }
        # The comment at the beginning of a file describes the file.
        if (held_at ~ /:1$/ && line ~ /^\/\*/) begins = 1
    }
    if (text != "") add("\n", code != "")
    while (line != "") {
        if (in_comment) {
            p = index(line, "*/")
            add(p ? substr(line, 1, p + 1) "\002" : line, 0)
            line = p ? substr(line, p + 2) : ""
            in_comment = !p
            if (p && drops && code == "") text = ""
            if (p) drops = 0
            continue
        }
        if (!match(line, /[{}();"']|\/\*/)) {
            add(line, 1)
            break
        }
        c = substr(line, RSTART, 1)
        p = RSTART
        # Blanks before a comment are no code.
        add(substr(line, 1, p - 1), code != "" || substr(line, 1, p - 1) ~ /[^ ]/)
        line = substr(line, p)
        if (c == "/") {
            in_comment = 1
            drops = begins
            add("\001/*", 0)
            line = substr(line, 3)
        } else if (c == "\"" || c == "'") {
            if (c == "'") match(line, /^'([^'\\]|\\.)*'/)
            else match(line, /^"([^"\\]|\\.)*"/)
            if (RSTART != 1) fail("a string has no end: " line)
            add(substr(line, 1, RLENGTH), 0)
            code = code "\"\""
            line = substr(line, RLENGTH + 1)
        } else {
            if (c == "{" && !braces++ && !parens) first = code
            add(c, 1)
            line = substr(line, 2)
            if (c == "(") parens++
            if (c == ")") parens--
            if (c == "}") braces--
            if (!braces && !parens && (c == ";" || c == "}" && is_body(first))) {
                # A comment that ends the line belongs to the item.
                if (line ~ /^ *\/\*.*\*\/ *$/) {
                    text = text line
                    line = ""
                }
                end_item()
                sub(/^ +/, "", line)
            }
        }
    }
}

# Returns whether what stands before a brace is the head of a function.
function is_body(head) {
    sub(/[ \n]+$/, "", head)
    return head ~ /\)$/ && head !~ /=/
}

# Returns the code without what is between brackets of a kind.
function without(c, begin, end,    depth, i, n, part, result) {
    n = length(c)
    for (i = 1; i <= n; i++) {
        part = substr(c, i, 1)
        if (part == begin && !depth++) result = result part
        if (part == end) depth--
        if (!depth) result = result part
    }
    return result
}

# Returns the last word of some code.
function last_word(c) {
    sub(/[^A-Za-z0-9_]+$/, "", c)
    return match(c, /[A-Za-z0-9_]+$/) ? substr(c, RSTART) : ""
}

# Adds to `names` the constants of each enum in the code.
function add_constants(c,    n, i, part) {
    while (match(c, /(^|[^A-Za-z0-9_])enum( [A-Za-z0-9_]+)? *\{/)) {
        c = substr(c, RSTART + RLENGTH)
        part = substr(c, 1, index(c, "}") - 1)
        part = without(part, "(", ")")
        n = split(part, constant, ",")
        for (i = 1; i <= n; i++) {
            sub(/=.*/, "", constant[i])
            if (last_word(constant[i]) != "") names = names " " last_word(constant[i])
        }
    }
}

# Sets `names` to what an item defines, and `declares` to what it only declares.
function find_names(c,    flat, n, i) {
    names = declares = ""
    gsub(/[ \n]+/, " ", c)
    sub(/^ /, "", c)
    while (match(c, /__attribute__ *\(\(/)) {
        n = RSTART
        c = substr(c, 1, n - 1) after_brackets(substr(c, n))
    }
    # A public function has its name in brackets.
    if (match(c, /\([A-Za-z0-9_]+\)\(/))
        c = substr(c, 1, RSTART - 1) substr(c, RSTART + 1, RLENGTH - 3) \
            substr(c, RSTART + RLENGTH - 1)
    if (c ~ /^_Static_assert/ || c ~ /^;$/) return
    if (match(c, /^(typedef )?(static )?(const )?(struct|union|enum) [A-Za-z0-9_]+ *\{/)) {
        flat = substr(c, RSTART, RLENGTH - 1)
        n = split(flat, words, " ")
        names = " struct:" words[n]
    }
    add_constants(c)
    if (is_body(first)) {
        names = " " last_word(substr(c, 1, index(c, "(") - 1))
        return
    }
    flat = without(without(without(c, "{", "}"), "(", ")"), "[", "]")
    if (c ~ /^typedef /) {
        if (flat ~ /\( *\) *;$/) flat = substr(flat, 1, index(flat, "(") - 1)
        names = names " " last_word(flat)
        return
    }
    if (flat ~ /^(struct|union|enum)( [A-Za-z0-9_]+)? *(\{\})? *;$/) return
    if (flat ~ /^extern / || flat ~ /\( *\) *;$/ && flat !~ /=/) {
        sub(/\(.*/, "", flat)
        n = split(flat, words, ",")
        for (i = 1; i <= n; i++) declares = declares " " last_word(words[i])
        return
    }
    n = split(flat, words, ",")
    for (i = 1; i <= n; i++) {
        sub(/=.*/, "", words[i])
        names = names " " last_word(words[i])
    }
}

# Returns what follows the first brackets of some code.
function after_brackets(c,    depth, i, n, part) {
    n = length(c)
    for (i = 1; i <= n; i++) {
        part = substr(c, i, 1)
        if (part == "(") depth++
        if (part == ")" && !--depth) return substr(c, i + 1)
    }
    return ""
}

# Takes the set's suffix off all names in a text.
function without_suffix(s,    result) {
    s = s " "
    while (match(s, /_plain[^A-Za-z0-9_]/)) {
        result = result substr(s, 1, RSTART - 1)
        s = substr(s, RSTART + 6)
    }
    s = result s
    return substr(s, 1, length(s) - 1)
}

BEGIN {
    math_names = "sqrt|fabs|copysign|fma|isinf|isfinite|log|log1p|exp|pow|fmod|floor|sin|cos|tan|" \
                 "asin|acos|atan|atan2|erf|erfc|sqrtf|fabsf|copysignf|fmaf|sinf|cosf|tanf|llabs"
    math_call = "(^|[^A-Za-z0-9_.>])(" math_names ")\\("
}

# Replaces the functions of math.h in a text, outside of its comments, by those of by_hand.txt. With
# tgmath.h, a function without an f at its end is one of floats in a loop over floats, unless its
# argument begins with a variable that is declared as a double, or with (double).
function with_math(s, is_float,    result, word) {
    while (match(s, "\001[^\002]*\002|" math_call)) {
        result = result substr(s, 1, RSTART - 1)
        word = substr(s, RSTART, RLENGTH)
        s = substr(s, RSTART + RLENGTH)
        if (substr(word, 1, 1) == "\001") {
            result = result word
            continue
        }
        if (word ~ /^[^a-z]/) {
            result = result substr(word, 1, 1)
            word = substr(word, 2)
        }
        sub(/\($/, "", word)
        if (word == "llabs") word = "__builtin_llabs"
        else if (word ~ /f$/ && word !~ /^(erf|isinf)$/) {
            sub(/f$/, "_float", word)
            word = "math_" word
        } else word = "math_" word (is_float && !is_double(s) ? "_float" : "_double")
        result = result word "("
    }
    return result s
}

# Returns whether an argument is a double, by its first word that is no function of math.h.
function is_double(s,    word) {
    while (match(s, /[A-Za-z_][A-Za-z0-9_]*/)) {
        word = substr(s, RSTART, RLENGTH)
        s = substr(s, RSTART + RLENGTH)
        if (!match(word, "^(math_[a-z0-9_]*|" math_names ")$"))
            return word == "double" || match(code, "double \\*?" word "[^A-Za-z0-9_]")
    }
    return 0
}

# What a table or a driver names is a loop.
function name_loops(s) {
    while (match(s, /[A-Za-z0-9_]+_plain[^A-Za-z0-9_]/)) {
        named[substr(s, RSTART, RLENGTH - 7)]
        s = substr(s, RSTART + RLENGTH - 1)
    }
}

# Keeps the current item, if it is a new one.
function keep_item(    i, k, n, is_float, is_by_hand) {
    if (text in known) return
    known[text]
    find_names(code)
    n = split(declares, words, " ")
    for (i = 1; i <= n; i++) {
        declared[words[i]]
        if (words[i] in stands && !(words[i] in home)) {
            text = hand[words[i]]
            code = without_comments(text)
            keep_item()
            return
        }
        # A constant has its place where it is declared.
        if (code ~ /^[ \n]*extern const / && !(words[i] in slot) && !(words[i] in home))
            slot[words[i]] = ++items
    }
    if (names == "" || substr(names, 2) in stands && substr(names, 2) in home) return
    keep_first()
    if (names !~ /_plain( |$)/) name_loops(code)
    if (substr(names, 2) in hand) {
        text = hand[substr(names, 2)]
        code = without_comments(text)
        is_by_hand = 1
        taken[substr(names, 2)]
    }
    is_float = names ~ /_float(_plain)?( |$)/
    if (code ~ math_call) {
        text = with_math(text, is_float)
        code = with_math(code, is_float)
    }
    k = substr(names, 2)
    k = k in slot ? slot[k] : ++items
    item_text[k] = text
    item_code[k] = code
    item_names[k] = without_suffix(names)
    item_is_by_hand[k] = is_by_hand
    item_is_function[k] = is_body(first)
    item_is_global[k] = code !~ /^[ \n]*(static|typedef|enum|struct|union) /
    n = split(item_names[k], words, " ")
    for (i = 1; i <= n; i++) {
        if (words[i] in home) clashes[words[i]] = clashes[words[i]] " " k
        else home[words[i]] = k
    }
}

# ---- needs -------------------------------------------------------------------------------------

# Finds the items that an item needs: those of its words that aren't fields.
function find_needs(k,    s, word, tag, n, i, list) {
    s = item_code[k]
    list = " "
    while (match(s, /(->|\.)?[A-Za-z0-9_]+/)) {
        word = substr(s, RSTART, RLENGTH)
        s = substr(s, RSTART + RLENGTH)
        if (word ~ /^[-.0-9]/) continue
        if (word == "struct" || word == "union" || word == "enum") {
            tag = 1
            continue
        }
        if (word ~ /_plain$/) word = substr(word, 1, length(word) - 6)
        if (tag) {
            tag = 0
            # A pointer needs no struct.
            if (s ~ /^ *(const *)?\*/) continue
            word = "struct:" word
        }
        if (!(word in home)) {
            if (word in declared && s ~ /^\(/) outside[word] = outside[word] item_names[k]
            continue
        }
        if (word in clashes) fail(word " is two things: items " home[word] clashes[word])
        n = home[word]
        if (n != k && !index(list, " " n " ")) list = list n " "
    }
    needs[k] = list
}

# Marks an item and all that it needs.
function mark(k,    n, i, list) {
    if (k in marked) return
    marked[k]
    find_needs(k)
    n = split(needs[k], list, " ")
    for (i = 1; i <= n; i++) {
        if (list[i] > k + 0 && item_is_function[list[i]])
            fail(item_names[k] " stands before what it needs:" item_names[list[i]])
        mark(list[i])
    }
}

# ---- text --------------------------------------------------------------------------------------

# Writes each statement of a macro's line in a line of its own.
function broken(s,    result, depth, parens, c) {
    while (match(s, /[{}();] */)) {
        c = substr(s, RSTART, 1)
        if (c == "}") depth--
        result = result substr(s, 1, RSTART - 1) c
        s = substr(s, RSTART + RLENGTH)
        if (c == "(") parens++
        else if (c == ")") {
            parens--
            if (s !~ /^([;,).]|\[)/ && s !~ /^->/) result = result " "
        } else {
            if (c == "{") depth++
            if (parens) result = result " "
            else result = result "\n" blanks((s ~ /^}/ ? depth - 1 : depth) * 4)
        }
    }
    sub(/[ \n]+$/, "", result)
    return result
}
function blanks(n) { return substr("                                                  ", 1, n) }

# Writes `static` before an item that other files see, behind the comment before it.
function with_static(s,    comment) {
    while (match(s, /^[ \n]*\001[^\002]*\002/)) {
        comment = comment substr(s, 1, RLENGTH)
        s = substr(s, RLENGTH + 1)
    }
    match(s, /^[ \n]*/)
    return comment substr(s, 1, RLENGTH) "static " substr(s, RLENGTH + 1)
}

# Returns an item's text as the archive has it.
function shown(k,    s) {
    s = item_text[k]
    if (item_is_by_hand[k]) return s
    if (item_is_global[k]) s = with_static(s)
    gsub(/[\001\002]/, "", s)
    # C99 has no anonymous unions.
    if (s ~ /\n    };/) sub(/\n    union [{]/, "\n    __extension__ union {", s)
    if (s !~ /\n/ && length(s) > 100 && item_is_function[k]) s = broken(s)
    gsub(/static inline __attribute__\(\(always_inline\)\)/, "K_INLINE", s)
    gsub(/ +\n/, "\n", s)
    while (sub(/\n\n\n/, "\n\n", s)) {}
    return without_suffix(s)
}

END {
    if (failed) exit 1
    for (word in named)
        if (word in home && item_is_function[home[word]] && item_code[home[word]] ~ /^ *static / &&
            item_code[home[word]] !~ /^ *static inline/)
            is_loop[home[word]]
    mark(home["head"])
    for (k = 1; k <= items; k++) if (k in is_loop) mark(k)
    for (word in hand) if (!(word in taken)) fail("the kernels have no " word ", which is by hand")
    for (word in outside) fail(word " isn't in the kernels, and is needed by" outside[word])
    count = 0
    for (k = 1; k <= items; k++) if (k in marked) place[k] = count++
    for (k = 1; k <= items; k++) {
        if (!(k in marked)) continue
        line = (k in is_loop ? "@loop" : "@part") item_names[k] " :"
        n = split(needs[k], list, " ")
        for (i = 1; i <= n; i++) line = line " " place[list[i]]
        if (item_names[k] == " head") sub(/part/, "head", line)
        print line
        text = shown(k)
        print text
        # A blank line follows what has several lines.
        if (text ~ /\n/) print ""
    }
}
