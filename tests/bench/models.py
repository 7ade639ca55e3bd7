"""The rows w12 of `make bench`: models in folders, as the examples decoder and sentences read them.

    models.py make FOLDER                       makes random models and the files of their peers
    models.py regard FOLDER BUILD FLOORS ROWS   runs the example decoder, and vectors.c
    models.py peers FOLDER ROWS                 runs transformers, PEFT, llama.cpp, ONNX Runtime

The last two print the lines of bench.py. Each run has a process of its own. Peers that aren't
installed are left out, and without transformers all rows. FLOORS is a file with the lines that
bench.c prints of its floors."""

import json
import logging
import os
import re
import resource
import statistics
import subprocess
import sys
import time
import warnings

SHAPE = dict(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12,
             num_attention_heads=12, num_key_value_heads=4, tie_word_embeddings=True,
             max_position_embeddings=512, bos_token_id=None, eos_token_id=None, pad_token_id=None)
MINILM = dict(vocab_size=30522, hidden_size=384, intermediate_size=1536, num_hidden_layers=6,
              num_attention_heads=12)
PROMPT, TOKENS = [11, 22, 33, 44], 64
RANK, LENGTH, STEPS, LR = 8, 128, 16, 1e-4
BATCH, TIMES = 32, 3
DECODER, LORA, SENTENCES = (
    "w12 decoder of 100M, one token", "w12 decoder of 100M, a step of LoRA",
    "w12 MiniLM, one sentence")
HERE = os.path.dirname(os.path.abspath(__file__))


def rows(wanted):
    """Yields the names of the wanted rows, with their number of threads."""
    for name in DECODER, LORA, SENTENCES:
        for threads, tail in (1, ""), (2, ", 2 threads"):
            if (name + tail).startswith(wanted):
                yield name, name + tail, threads


def sentences():
    """Returns sentences of 10 to 50 words: one to five lines of the sonnets each, which are read
    three times, with other counts of lines."""
    with open(os.path.join(HERE, "../../examples/sonnets.txt"), encoding="utf-8") as f:
        lines = [line.strip() for line in f if line.strip()]
    counts, joined, at = [1, 2, 1, 3, 2, 5, 1, 4, 2], [], 0
    while at < 3 * len(lines):
        n = counts[len(joined) % len(counts)]
        joined.append(" ".join(lines[(at + k) % len(lines)] for k in range(n)))
        at += n
    return joined


def text():
    """Returns the numbers of tokens to learn from."""
    return [i * i * 7919 % 31991 for i in range(2 * LENGTH)]


# ---- making the models ------------------------------------------------------------------


def permuted(weight, heads):
    """Returns a weight of queries or keys with its rows as llama.cpp turns them: in pairs of
    neighbours."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(model, path):
    import gguf

    layers, heads = SHAPE["num_hidden_layers"], SHAPE["num_attention_heads"]
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(SHAPE["max_position_embeddings"])
    w.add_embedding_length(SHAPE["hidden_size"])
    w.add_block_count(layers)
    w.add_feed_forward_length(SHAPE["intermediate_size"])
    w.add_head_count(heads)
    w.add_head_count_kv(SHAPE["num_key_value_heads"])
    w.add_layer_norm_rms_eps(model.config.rms_norm_eps)
    w.add_rope_dimension_count(SHAPE["hidden_size"] // heads)
    w.add_rope_freq_base(10000.0)
    w.add_vocab_size(SHAPE["vocab_size"])
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    w.add_tokenizer_model("none")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, layers)
    for name, t in model.state_dict().items():
        t = t.numpy()
        if name == "lm_head.weight":
            continue
        if name.endswith("q_proj.weight"):
            t = permuted(t, heads)
        elif name.endswith("k_proj.weight"):
            t = permuted(t, SHAPE["num_key_value_heads"])
        w.add_tensor(names.get_name(name, try_suffixes=(".weight",)), t)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make_decoder(folder):
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE)).eval()
    model.save_pretrained(folder + "/llama")
    with open(folder + "/tokens.txt", "w") as f:
        f.write(" ".join(map(str, text())))
    yield "llama.cpp", lambda: write_gguf(model, folder + "/llama.gguf")

    def adapter():
        import peft

        adapted = peft.get_peft_model(model, peft.LoraConfig(
            r=RANK, lora_alpha=2 * RANK, target_modules=["q_proj", "v_proj"]))
        adapted.save_pretrained(folder + "/adapter")

    yield "PEFT", adapter


def make_encoder(folder):
    import torch
    import transformers

    torch.manual_seed(2)
    model = transformers.BertModel(transformers.BertConfig(**MINILM)).eval()
    model.save_pretrained(folder + "/minilm")
    with open(os.path.join(HERE, "../golden/files/bert/tokenizer.json")) as f:
        tokenizer = json.load(f)
    vocabulary = tokenizer["model"]["vocab"]
    for word in re.findall("[a-z]+", " ".join(sentences()).lower()):
        vocabulary.setdefault(word, len(vocabulary))
    with open(folder + "/minilm/tokenizer.json", "w") as f:
        json.dump(tokenizer, f)
    with open(folder + "/sentences.txt", "w") as f:
        f.write("".join(s + "\n" for s in sentences()))

    def onnx():
        class Hidden(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, ids, mask):
                return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

        ids = torch.ones(2, 9, dtype=torch.int64)
        mask = (torch.arange(9) < torch.tensor([[9], [7]])).to(torch.int64)
        free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
        torch.onnx.export(Hidden().eval(), (ids, mask), folder + "/minilm.onnx", dynamo=True,
                          input_names=["ids", "mask"], output_names=["hidden"],
                          dynamic_shapes={"ids": free, "mask": free}, external_data=False,
                          verbose=False)

    yield "ONNX Runtime", onnx


def make(folder):
    for part in make_decoder, make_encoder:
        for peer, write in part(folder):
            try:
                write()
            except ImportError as e:
                print(f"w12: without {peer}: {e}", file=sys.stderr)


# ---- running regard -----------------------------------------------------------------------


def run(threads, *command):
    """Returns what the program prints on both of its streams, and the peak of its memory in MB."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=dict(os.environ, REGARD_THREADS=str(threads))) as p:
        said = p.stdout.read()
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        sys.exit(f"{command[0]}: {said}")
    return said, used.ru_maxrss // 1024


def number_of_tokens(tokens):
    return statistics.mean(tokens)


def run_example(name, folder, build, threads):
    """Returns what one run says: how much a second, a number, and MB."""
    if name == DECODER:
        said, mb = run(threads, build + "/examples/decoder", folder + "/llama",
                       " ".join(map(str, PROMPT)), "--tokens", str(TOKENS), "--temperature", "0")
        rate = re.search(r"[0-9]+ tokens, ([0-9.]+) a second\n", said)
        tokens = said.replace(rate.group(), "").split()
        number = number_of_tokens([int(word) for word in tokens])
    elif name == LORA:
        said, mb = run(threads, build + "/examples/decoder", folder + "/llama", "--adapter",
                       folder + "/adapter", "--train", folder + "/tokens.txt", "--length",
                       str(LENGTH), "--steps", str(STEPS), "--lr", str(LR))
        number = float(re.findall(r"loss ([0-9.]+)", said)[-1])
        rate = re.search(r"steps, ([0-9.]+) a second", said)
    else:
        vectors = folder + "/vectors.npy"
        said, mb = run(threads, build + "/bench-vectors", folder + "/minilm",
                       folder + "/sentences.txt", vectors)
        import numpy

        number = abs(numpy.load(vectors)).mean()
        rate = re.search(r"sentences, ([0-9.]+) a second", said)
    return float(rate.group(1)), number, mb


def regard(folder, build, floors, wanted):
    read = {}
    with open(floors) as f:
        for line in f:
            words = line.split("\t")
            if words[0].startswith("floor read"):
                read[words[0]] = float(words[1]) / float(words[6])
    for name, row, threads in rows(wanted):
        if name == LORA and not os.path.exists(folder + "/adapter"):
            continue
        # vectors.c makes its own median.
        times = 1 if name == SENTENCES else TIMES
        runs = [run_example(name, folder, build, threads) for _ in range(times)]
        rate = statistics.median(r[0] for r in runs)
        # A token reads all weights once.
        weights = os.path.getsize(folder + "/llama/model.safetensors") if name == DECODER else 0
        floor = weights * read.get("floor read 256 MB" + row[len(name):], 0)
        print(f"{row}\t{1e9 / rate:.1f}\t{runs[0][1]:.9g}\t0\t{floor:.0f}\t{runs[0][2]}\t{weights}")


# ---- running the peers --------------------------------------------------------------------


def timed(function, times=TIMES):
    """Returns the median of the seconds that the function takes, and its last result."""
    function()
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), result


def with_transformers(name, folder, threads):
    import torch
    import transformers

    torch.set_num_threads(threads)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    if name == DECODER:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder + "/llama").eval()
        ids = torch.tensor([PROMPT])
        options = dict(max_new_tokens=TOKENS, do_sample=False)
        seconds, all_ids = timed(lambda: model.generate(ids, **options))
        return seconds / TOKENS, number_of_tokens(all_ids[0, len(PROMPT):].tolist())
    if name == LORA:
        return with_peft(folder)
    from tokenizers import Tokenizer

    model = transformers.AutoModel.from_pretrained(folder + "/minilm").eval()
    tokenizer = Tokenizer.from_file(folder + "/minilm/tokenizer.json")

    def hidden(ids, mask):
        with torch.inference_mode():
            return model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)
                         ).last_hidden_state.numpy()

    return encoded(tokenizer, hidden)


def encoded(tokenizer, hidden):
    """Returns the seconds for a sentence, and the mean of the vectors' elements. Sentences of about
    the same length are computed together."""
    import numpy as np

    tokenizer.enable_padding()
    lines = sentences()

    def vectors():
        order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
        found = [None] * len(lines)
        for i in range(0, len(order), BATCH):
            some = order[i : i + BATCH]
            batch = tokenizer.encode_batch([lines[k] for k in some])
            ids = np.array([e.ids for e in batch], dtype=np.int64)
            mask = np.array([e.attention_mask for e in batch], dtype=np.int64)
            x = hidden(ids, mask)
            weights = mask[:, :, None].astype(np.float32)
            x = (x * weights).sum(1) / weights.sum(1)
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            for k, row in zip(some, x):
                found[k] = row
        return np.stack(found)

    seconds, all_vectors = timed(vectors)
    return seconds / len(lines), abs(all_vectors).mean()


def with_peft(folder):
    import peft
    import torch
    import transformers

    base = transformers.AutoModelForCausalLM.from_pretrained(folder + "/llama")
    model = peft.PeftModel.from_pretrained(base, folder + "/adapter", is_trainable=True)
    ids = torch.tensor([text()])
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LR, fused=True)
    at = [0]

    def step():
        begin = at[0] * LENGTH % (ids.shape[1] - LENGTH)
        at[0] += 1
        logits = model(ids[:, begin : begin + LENGTH]).logits[0]
        loss = torch.nn.functional.cross_entropy(logits, ids[0, begin + 1 : begin + LENGTH + 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    # The first step counts as well, as it does in the example.
    begin = time.perf_counter()
    losses = [step() for _ in range(STEPS)]
    return (time.perf_counter() - begin) / STEPS, losses[-1]


def with_llama_cpp(name, folder, threads):
    """Computes with llama.cpp, whose keys and values are float32 here, too."""
    import ctypes

    import llama_cpp
    import numpy as np

    # llama.cpp calls the callback until the process ends.
    with_llama_cpp.quiet = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(with_llama_cpp.quiet, ctypes.c_void_p())
    llama = llama_cpp.Llama(folder + "/llama.gguf", n_ctx=256, n_threads=threads, verbose=False,
                            n_threads_batch=threads, type_k=llama_cpp.GGML_TYPE_F32,
                            type_v=llama_cpp.GGML_TYPE_F32)

    def write():
        llama.reset()
        llama.eval(PROMPT)
        tokens = []
        while True:
            logits = llama_cpp.llama_get_logits_ith(llama.ctx, -1)
            row = np.ctypeslib.as_array(logits, shape=(SHAPE["vocab_size"],))
            tokens.append(int(row.argmax()))
            if len(tokens) == TOKENS:
                return tokens
            llama.eval(tokens[-1:])

    seconds, tokens = timed(write)
    return seconds / TOKENS, number_of_tokens(tokens)


def with_onnx(name, folder, threads):
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder + "/minilm.onnx", options,
                                           providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(folder + "/minilm/tokenizer.json")
    return encoded(tokenizer, lambda ids, mask: session.run(None, {"ids": ids, "mask": mask})[0])


def peers(folder, wanted):
    for name, row, threads in rows(wanted):
        for tail, peer, needs in (
            ("", with_transformers, "adapter" if name == LORA else "llama"),
            (", llama.cpp", with_llama_cpp, "llama.gguf" if name == DECODER else None),
            (", ONNX Runtime", with_onnx, "minilm.onnx" if name == SENTENCES else None),
        ):
            if needs is None or not os.path.exists(f"{folder}/{needs}"):
                continue
            child = os.fork()
            if child == 0:
                try:
                    seconds, number = peer(name, folder, threads)
                except ImportError as e:
                    print(f"{row}{tail}: {e}", file=sys.stderr)
                    os._exit(0)
                mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                print(f"{row}{tail}\t{seconds * 1e9:.1f}\t{number:.9g}\t{mb}", flush=True)
                os._exit(0)
            if os.waitpid(child, 0)[1]:
                sys.exit(f"w12: {row}{tail} failed")


logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
what, *arguments = sys.argv[1:]
{"make": make, "regard": regard, "peers": peers}[what](*arguments)
