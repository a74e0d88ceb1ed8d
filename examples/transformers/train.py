"""The Trainer of transformers teaches a small GPT-2, from nothing, the bytes of trainrun's documents. A callback reports to trainrun."""

import glob
import hashlib
import os
import shutil
import tempfile

import torch
import transformers

import trainrun
import trainrun.transformers


def pieces(folder, length):
    """Return all documents of a folder, as pieces of so many bytes. The Trainer divides them among the ranks."""
    whole = b"".join(open(path, "rb").read() for path in sorted(glob.glob(f"{folder}/*.md")))
    rows = torch.frombuffer(bytearray(whole[: len(whole) // length * length]), dtype=torch.uint8).long().reshape(-1, length)
    return [{"input_ids": row, "labels": row} for row in rows]


def main():
    context = trainrun.get_context()
    config, checkpoint = context.get_config(), trainrun.get_checkpoint()
    transformers.set_seed(config["seed"])
    shape = transformers.GPT2Config(vocab_size=256, n_positions=config["context"], n_embd=64, n_layer=2, n_head=2)
    model = transformers.GPT2LMHeadModel(shape)
    args = transformers.TrainingArguments(
        output_dir=os.path.join(tempfile.gettempdir(), context.get_run_id()),  # the same one on all ranks of a node
        max_steps=config["steps"],
        per_device_train_batch_size=config["batch_size"],
        learning_rate=config["lr"],
        logging_steps=config["report_every"],
        save_steps=config["report_every"],
        save_total_limit=1,  # trainrun keeps the others
        seed=config["seed"],
        report_to=[],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),  # without it, each rank would train alone
    )
    report = trainrun.transformers.ReportCallback()
    trainer = transformers.Trainer(model, args, train_dataset=pieces(config["text"], config["context"]), callbacks=[report])
    trainer.train(resume_from_checkpoint=trainrun.transformers.resume())
    trainrun.barrier()
    shutil.rmtree(args.output_dir, ignore_errors=True)
    digest = hashlib.sha256(b"".join(weight.detach().cpu().numpy().tobytes() for weight in model.parameters()))
    trainrun.set_result({"first": checkpoint.metrics["step"] if checkpoint else 0, "weights": digest.hexdigest()})


main()
