"""What the training scripts share: optimizers, their schedule, and checkpoints."""

import pathlib

import torch


class Muon(torch.optim.Optimizer):
    """Momentum whose update is made nearly orthogonal (Jordan et al., 2024), for matrices.

    The five steps of a quintic Newton-Schulz iteration push all singular values towards 1. In fp32:
    on a CPU without bf16 units torch.optim.Muon, which iterates in bf16, costs more than the model.
    """

    def __init__(self, parameters, lr: float, momentum: float = 0.95, weight_decay: float = 0.01):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @staticmethod
    def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
        tall = matrix.size(0) > matrix.size(1)
        x = matrix.mT if tall else matrix
        x = x / (x.norm() + 1e-7)
        for _ in range(5):
            gram = x @ x.mT
            x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
        return x.mT if tall else x

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            momentum, lr = group["momentum"], group["lr"]
            for parameter in group["params"]:
                average = self.state[parameter].setdefault("average", torch.zeros_like(parameter))
                average.lerp_(parameter.grad, 1 - momentum)
                update = self.orthogonal(parameter.grad.lerp(average, momentum))  # Nesterov
                scale = max(1.0, parameter.size(0) / parameter.size(1)) ** 0.5
                parameter.mul_(1 - lr * group["weight_decay"])
                parameter.add_(update, alpha=-lr * scale)


def make_optimizers(
    model: torch.nn.Module,
    learning_rate: float,
    muon_learning_rate: float,
    embedding_share: float = 1.0,
    weight_decay: float = 0.01,
) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for embedding, output and norms. The rates are peaks;
    `embedding_share`: that of the embedding, as a share of `learning_rate`. `weight_decay`: Muon's.
    """

    def is_table(name: str) -> bool:
        return "embed" in name or "lm_head" in name

    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.dim() == 2 and not is_table(name)]
    embeddings = [p for name, p in named if "embed" in name]
    others = [p for name, p in named if "embed" not in name and (p.dim() != 2 or is_table(name))]
    groups = [
        {"params": embeddings, "lr": embedding_share * learning_rate},
        {"params": others, "lr": learning_rate},
    ]
    return [
        torch.optim.AdamW(groups, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
        Muon(matrices, lr=muon_learning_rate, weight_decay=weight_decay),
    ]


def schedule(step: int, steps: int, warmup: int) -> float:
    """Share of the peak learning rate: up over the warm-up, then linearly to 0 at the end."""
    return min(1.0, (step + 1) / warmup) * (1 - step / steps)


class Optimization:
    """Steps of optimizers by a schedule, and the checkpoint of an interrupted run."""

    def __init__(
        self, model: torch.nn.Module, optimizers: list, steps: int, warmup: int, file: pathlib.Path
    ):
        self.model, self.optimizers, self.steps, self.warmup = model, optimizers, steps, warmup
        self.file = file
        self.peaks = [group["lr"] for group in self.groups()]

    def groups(self) -> list[dict]:
        """Those of all optimizers: others after a checkpoint was loaded."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def step(self, step: int, loss: torch.Tensor) -> None:
        """One step, with the gradient of `loss` clipped at norm 1."""
        for group, peak in zip(self.groups(), self.peaks):
            group["lr"] = peak * schedule(step, self.steps, self.warmup)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()

    def save(self, steps: int) -> None:
        """What an interrupted run needs to go on as the same run."""
        part = self.file.with_name(self.file.name + ".part")
        states = [optimizer.state_dict() for optimizer in self.optimizers]
        torch.save({"steps": steps, "model": self.model.state_dict(), "optimizers": states}, part)
        part.replace(self.file)

    def load(self) -> int:
        """The steps that an interrupted run has done; 0 if there was none."""
        if not self.file.exists():
            return 0
        state = torch.load(self.file, weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimizer, own in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(own)
        print(f"goes on after {state['steps']} steps of {self.file}", flush=True)
        return state["steps"]

    def finish(self) -> None:
        self.file.unlink(missing_ok=True)
