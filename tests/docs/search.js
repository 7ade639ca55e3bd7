/* search.js: the site's search. INDEX has a row for each thing that can be found: its title, its
 * address, its names in Python, and a line about it. The language is ES5, so that a small
 * interpreter can test it. */

/* Returns the part of a name after its last point. */
function last(name) {
    return name.slice(name.lastIndexOf(".") + 1);
}

function endsWith(text, end) {
    return end.length <= text.length && text.slice(text.length - end.length) === end;
}

/* Takes a query apart. "F.softmax(x, dim=1)" has the name torch.nn.functional.softmax and the
 * arguments "x, dim=1". */
function parsed(query) {
    var text = query.replace(/^\s+|\s+$/g, "");
    var call = /^([\w.]+)\s*(?:\((.*?)\)?)?$/.exec(text);
    var name = call ? call[1] : "";
    name = name.replace(/^F\./, "torch.nn.functional.").replace(/^(nn|optim)\./, "torch.$1.");
    return { text: text, name: name, arguments: call ? call[2] : undefined };
}

/* A reduction has one function for a single dim, and another for several dims or a dtype. */
function fits(title, args) {
    var one = /^\s*-?\d|dim\s*=\s*-?\d/.test(args), many = /^\s*[(\[]|dim\s*=\s*[(\[]/.test(args);
    var stem = title.replace(/_as$/, "");
    return (/_dim$/.test(stem) === one ? 2 : 0) + (/_dims$/.test(stem) === many ? 2 : 0)
        + (/_as$/.test(title) === /dtype/.test(args) ? 2 : 0);
}

/* Returns how well a row answers the query. 0 means that it doesn't. */
function score(row, q) {
    var title = row[0], names = row[2], best = 0, lower = q.name.toLowerCase();
    function at_least(points) { if (points > best) best = points; }
    if (title === q.text) at_least(/^rg_/i.test(title) ? 200 : 125);
    for (var i = 0; i < names.length; i++) {
        var name = names[i];
        if (name === q.text) at_least(195);
        else if (name === q.name) at_least(190);
        else if (name.indexOf(q.text) === 0) at_least(120);
        else if (name.indexOf(q.text) > 0) at_least(70);
        if (!q.name) continue;
        if (endsWith(name, "." + q.name)) at_least(170);
        else if (endsWith(name.toLowerCase(), "." + lower)) at_least(160);
        else if (last(name) === last(q.name)) at_least(150);
        else if (last(name).toLowerCase() === last(lower)) at_least(140);
    }
    if (title === "rg_" + last(q.name)) at_least(130);
    else if (title.toLowerCase().indexOf(q.text.toLowerCase()) >= 0) at_least(80);
    else if (lower && title.toLowerCase().indexOf(last(lower)) >= 0) at_least(60);
    var words = q.text.toLowerCase().split(/\s+/), all = (title + " " + row[3]).toLowerCase();
    for (var w = 0; w < words.length; w++)
        if (all.indexOf(words[w]) < 0) words = [];
    if (words.length) at_least(40);
    if (!best) return 0;
    best += fits(title, q.arguments || "") - title.length / 100;
    return /_with_?$/.test(title) ? best - 1 : best;
}

/* Returns the rows that answer a query, the best first. */
function search(query) {
    var q = parsed(query), found = [];
    for (var i = 0; q.text && i < INDEX.length; i++) {
        var points = score(INDEX[i], q);
        if (points) found.push([points, i]);
    }
    found.sort(function (a, b) { return b[0] - a[0] || a[1] - b[1]; });
    return found.slice(0, 12).map(function (f) { return INDEX[f[1]]; });
}

function show(list, rows) {
    list.textContent = "";
    rows.forEach(function (row) {
        var item = document.createElement("li"), a = document.createElement("a");
        var about = document.createElement("small");
        a.href = ROOT + row[1];
        a.textContent = row[0];
        about.textContent = row[2].slice(0, 3).join("  ") || row[3];
        a.appendChild(about);
        item.appendChild(a);
        list.appendChild(item);
    });
    list.hidden = !rows.length;
}

if (typeof document !== "undefined") {
    var input = document.getElementById("search"), list = document.getElementById("found");
    input.addEventListener("input", function () { show(list, search(input.value)); });
    input.form.addEventListener("submit", function (event) {
        event.preventDefault();
        if (list.querySelector("a")) list.querySelector("a").click();
    });
    list.addEventListener("click", function () { list.hidden = true; });
    document.addEventListener("keydown", function (event) {
        if (event.key === "Escape") list.hidden = true;
        if (event.key === "/" && document.activeElement !== input) {
            event.preventDefault();
            input.focus();
        }
    });
}
