#!/usr/bin/env python3
"""The example decoder beside transformers and PEFT, as they are installed.

    tests/exchange/decoder.py [BUILD]

BUILD is the folder in which make has built examples/decoder, by default "build". transformers makes
small random models. Logits must agree within 1e-5 times the greatest of them, 200 greedy tokens
must be the same with a cache of keys and values and without, and losses of 50 steps must agree
within 1e-4: where all weights are trained, and where PEFT's matrices are. What each program has
trained, the other reads. Folders that lie must be refused by name, within little memory."""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import warnings

# The scripts beside this one have names of packages.
sys.path.pop(0)

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

try:
    import peft
except ImportError:
    peft = None

BUILD = sys.argv[1] if len(sys.argv) > 1 else "build"
VOCAB, STEPS, LENGTH, LR = 97, 50, 32, 1e-3
SHAPE = dict(vocab_size=VOCAB, hidden_size=48, intermediate_size=80, num_hidden_layers=3,
             num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=512,
             bos_token_id=None, eos_token_id=None, pad_token_id=None, initializer_range=0.2)
LLAMA3 = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=64)
MODELS = {
    "llama": ("Llama", {}),
    "llama3": ("Llama", dict(head_dim=16, rope_parameters=LLAMA3, tie_word_embeddings=True)),
    "llama_linear": ("Llama", dict(attention_bias=True, mlp_bias=True, rope_parameters=dict(
        rope_type="linear", rope_theta=1e4, factor=4.0))),
    "qwen2": ("Qwen2", {}),
    "qwen2_sliding": ("Qwen2", dict(use_sliding_window=True, sliding_window=16,
                                    max_window_layers=1)),
    "qwen3": ("Qwen3", dict(head_dim=16)),
    "gemma": ("Gemma", dict(head_dim=16)),
}


def limited():
    """The program may take 2 GB of address space, also where a file asks for more."""
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def decoder(*arguments, fails=None):
    """Returns what the example prints; or sees that it fails with this text."""
    done = subprocess.run([f"{BUILD}/examples/decoder", *map(str, arguments)], capture_output=True,
                          text=True, preexec_fn=limited if fails else None)
    if fails is None:
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout
    assert done.returncode in (1, 2) and fails in done.stderr, (fails, done.returncode, done.stderr)
    return None


def words(ids):
    return " ".join(map(str, ids.flatten().tolist()))


def losses_of(model, text, wanted):
    """Trains a model of torch as the example trains its own, and returns the losses."""
    optimizer = torch.optim.AdamW(wanted, lr=LR)
    losses = []
    for i in range(STEPS):
        begin = i * LENGTH % (len(text) - LENGTH)
        logits = model(text[None, begin : begin + LENGTH]).logits[0]
        loss = torch.nn.functional.cross_entropy(logits, text[begin + 1 : begin + LENGTH + 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def agree(name, model, folder, *options):
    """Compares logits and greedy tokens."""
    ids = torch.randint(0, VOCAB, (1, 60))
    greedy = (folder, words(ids), "--tokens", 200, "--temperature", 0, *options)
    tokens = decoder(*greedy, "--logits", f"{folder}/logits.npy").split()
    assert tokens == decoder(*greedy, "--uncached").split(), f"{name}: with the cache or without"
    with torch.no_grad():
        logits = model(ids).logits[0].float().numpy()
        same = model.generate(ids, max_new_tokens=200, do_sample=False)[0, 60:].tolist()
    off = abs(np.load(f"{folder}/logits.npy") - logits).max() / abs(logits).max()
    assert off < 1e-5, f"{name}: logits are off by {off}"
    assert list(map(int, tokens)) == same, f"{name}: greedy tokens"
    return off


def trained(name, losses, folder, *options):
    """Compares the losses of steps, of which the last two are printed for the last model."""
    lines = decoder(folder, "--train", f"{folder}/text", "--length", LENGTH, "--steps", STEPS,
                    "--lr", LR, *options).splitlines()
    off = max(abs(float(line.split()[-1]) - loss) for line, loss in zip(lines, losses))
    assert len(lines) == STEPS + 1 and off < 1e-4, f"{name}: losses are off by {off}"
    return off


def compare(name, folder):
    kind, options = MODELS[name]
    config = getattr(transformers, kind + "Config")(**{**SHAPE, **options})
    torch.manual_seed(len(name))
    model = getattr(transformers, kind + "ForCausalLM")(config).eval()
    model.save_pretrained(folder)
    logits = agree(name, model, folder)
    text = torch.randint(0, VOCAB, (1000,))
    with open(f"{folder}/text", "w") as f:
        f.write(words(text))
    after = f"{folder}/after"
    losses = trained(name, losses_of(model, text, model.parameters()), folder, "--save", after)
    agree(name + ", trained here", AutoModelForCausalLM.from_pretrained(after).eval(), after)
    says = f"{name}: logits within {logits:.1e}, losses within {losses:.1e}"
    print(says + (f", PEFT's within {adapted(name, folder, text):.1e}" if peft else ""))


def adapted(name, folder, text):
    """Trains PEFT's matrices in both programs, and exchanges them."""
    base = AutoModelForCausalLM.from_pretrained(folder)
    model = peft.get_peft_model(base, peft.LoraConfig(
        r=4, lora_alpha=12, target_modules=["q_proj", "v_proj", "down_proj"]))
    first, last, ours = (f"{folder}/{n}" for n in ("first", "last", "ours"))
    model.save_pretrained(first)
    losses = losses_of(model, text, [p for p in model.parameters() if p.requires_grad])
    off = trained(f"{name}, LoRA", losses, folder, "--adapter", first, "--save", ours)
    model.save_pretrained(last)
    agree(f"{name}, PEFT's", model.eval(), folder, "--adapter", last)
    base = AutoModelForCausalLM.from_pretrained(folder)
    agree(f"{name}, LoRA here", peft.PeftModel.from_pretrained(base, ours).eval(), folder,
          "--adapter", ours)
    decoder(folder, "--train", f"{folder}/text", "--steps", 2, "--length", LENGTH, "--lora", 3,
            "--save", ours)
    peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder), ours)
    return off


def other_files(folder):
    """Reads weights in several files, and in bfloat16."""
    torch.manual_seed(3)
    config = transformers.LlamaConfig(**SHAPE)
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(folder, max_shard_size="20KB")
    assert os.path.exists(f"{folder}/model.safetensors.index.json")
    agree("shards", model, folder)
    half = f"{folder}/half"
    model.to(torch.bfloat16).save_pretrained(half)
    agree("bfloat16", AutoModelForCausalLM.from_pretrained(half, dtype=torch.float32), half)
    near(half)


def near(folder):
    """Computes in bfloat16: the logits are as far from transformers' as both round, which differs
    only in the order of sums."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    ids = list(range(1, 17))
    path = f"{folder}/logits.npy"
    decoder(folder, " ".join(map(str, ids)), "--tokens", 1, "--half", "--logits", path)
    with torch.no_grad():
        wanted = model(torch.tensor([ids])).logits[0].float()
    off = (torch.from_numpy(np.load(path)) - wanted).abs().max() / wanted.abs().max()
    assert off < 0.04, f"bfloat16: the logits are {off} off"


def refusals(folder):
    config = json.load(open(f"{folder}/config.json"))
    tensors = load_file(f"{folder}/model.safetensors")
    wrong = f"{folder}/wrong"
    os.makedirs(wrong)

    def refused(text, prompt="1 2 3", without=(), weights=None, **changes):
        with open(f"{wrong}/config.json", "w") as f:
            json.dump({k: v for k, v in {**config, **changes}.items() if k not in without}, f)
        save_file({**tensors, **(weights or {})}, f"{wrong}/model.safetensors")
        decoder(wrong, prompt, "--tokens", 1, fails=text)

    refused('"model_type" is "gpt2"', model_type="gpt2")
    refused('"/hidden_size" is "x", and no whole number', hidden_size="x")
    refused('"vocab_size" is 1152921504606846976', vocab_size=1 << 60)
    refused('"num_hidden_layers" is 0', num_hidden_layers=0)
    refused('lacks tensor "model.layers.3.self_attn.q_proj.weight"', num_hidden_layers=1 << 20)
    refused('"model.embed_tokens.weight" is torch.Size([97, 48])', hidden_size=1 << 20)
    refused('"model.layers.2.input_layernorm.weight" is none of the model', num_hidden_layers=2)
    refused('"x" is none of the model', weights={"x": torch.ones(1)})
    refused('is torch.Size([97, 48]) of torch.int64',
            weights={"lm_head.weight": torch.ones(97, 48, dtype=torch.int64)})
    refused('the activation "relu"', hidden_act="relu")
    refused('positions of type "yarn"', rope_parameters={"rope_type": "yarn"})
    refused("6 heads of 8 with 4 heads", num_key_value_heads=4)
    refused("index 97 is out of bounds", prompt="1 97")
    refused("index -1 is out of bounds", prompt="1 -1")
    refused("are no numbers of tokens", prompt="hello")
    decoder(f"{folder}/none", "1", fails="No such file")
    os.remove(f"{wrong}/model.safetensors")
    decoder(wrong, "1", fails="No such file")
    with open(f"{wrong}/model.safetensors.index.json", "w") as f:
        json.dump({"weight_map": {"lm_head.weight": "missing.safetensors"}}, f)
    decoder(wrong, "1", fails="missing.safetensors")
    with open(f"{wrong}/config.json", "w") as f:
        f.write("[" * 1000)
    decoder(wrong, "1", fails="too deep")


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            compare(name, folder)
            if name == "llama":
                refusals(folder)
    with tempfile.TemporaryDirectory() as folder:
        other_files(folder)
    print("decoder: seven models as transformers has them, "
          + ("with PEFT's matrices" if peft else "without PEFT, which isn't installed"))


main()
