/* answers.js: what the search must find first. tests/docs/run appends it to index.js and
 * search.js. */
var EXPECTED = [
    ["torch.softmax", "rg_softmax"],
    ["torch.nn.functional.softmax", "rg_softmax"],
    ["F.softmax(x, dim=-1, dtype=torch.float32)", "rg_softmax_as"],
    ["softmax", "rg_softmax"],
    ["x.sum()", "rg_sum"],
    ["x.sum(1)", "rg_sum_dim"],
    ["x.sum(dim=1, keepdim=True)", "rg_sum_dim"],
    ["y.mean((0, 2))", "rg_mean_dims"],
    ["nn.Linear", "rg_nn_linear"],
    ["torch.nn.Linear(3, 4)", "rg_nn_linear"],
    ["F.linear", "rg_linear"],
    ["LayerNorm", "rg_nn_layer_norm"],
    ["optim.AdamW", "rg_optim_adamw"],
    ["torch.cat([a, b], dim=1)", "rg_cat"],
    ["loss.backward()", "rg_backward"],
    ["w.grad", "rg_grad_of"],
    ["x.T", "rg_T"],
    ["x @ w", "rg_matmul"],
    ["model.state_dict()", "rg_state_dict"],
    ["nn.Module.to", "rg_module_to"],
    ["rg_einsum", "rg_einsum"],
    ["torch.no_grad", "RG_NO_GRAD"],
    ["SoftmaxBackward0", "softmax"],
    ["trusting a gradient", "Trusting a gradient"]
];
var failed = 0, asked = 0;

function expect(query, ok, what) {
    var found = search(query);
    asked++;
    if (found.length && ok(found[0])) return;
    failed++;
    print("docs: the search for " + query + " finds " + (found.length ? found[0][0] : "nothing")
        + ", and not " + what);
}

EXPECTED.forEach(function (e) {
    expect(e[0], function (row) { return row[0] === e[1]; }, e[1]);
});
/* For each name in Python, and each expression of docs/names.md, the search must find its function
 * first. */
var names = {};
INDEX.forEach(function (row) {
    row[2].forEach(function (name) { names[name] = true; });
});
Object.keys(names).forEach(function (name, i) {
    if (i % 9 === 0)
        expect(name, function (row) { return row[2].indexOf(name) >= 0; }, "what has that name");
});
print(failed ? "docs: " + failed + " of " + asked + " searches fail"
             : "docs: " + asked + " searches find what they should");
