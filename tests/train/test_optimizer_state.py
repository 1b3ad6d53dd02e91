"""Optimizer state apart and together again: bit for bit, by names, without pickle."""

import json

import pytest
import torch

from hemostat.errors import RecordError, TaskError
from hemostat.train.optimizer_state import join_state, param_names, plain_groups, split_state


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))


def stepped(net, make, num_steps=3):
    optimizer = make(net)
    for number in range(num_steps):
        optimizer.zero_grad()
        net(torch.full((2, 3), 0.1 * number + 1).to(net[0].weight.dtype)).square().sum().backward()
        optimizer.step()
    return optimizer


MAKERS = {
    "adamw": lambda net: torch.optim.AdamW(net.parameters(), lr=0.01, amsgrad=True),
    "sgd": lambda net: torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9),
    "groups": lambda net: torch.optim.AdamW(
        [{"params": net[1].parameters(), "lr": 0.5}, {"params": net[0].parameters(), "betas": (0.5, 0.6)}]
    ),
    "rprop": lambda net: torch.optim.Rprop(net.parameters()),
    "adagrad": lambda net: torch.optim.Adagrad(net.parameters()),
    "tensor lr": lambda net: torch.optim.Adam(net.parameters(), lr=torch.tensor(0.01)),
}


def flat(optimizer):
    tensors, tree = split_state(optimizer, [str(n) for n in range(99)], [])
    return {name: value.clone() for name, value in tensors.items()}, tree["groups"]


@pytest.mark.parametrize("name", MAKERS)
def test_the_state_comes_back_and_the_next_step_is_the_same(name):
    net = model()
    optimizer = stepped(net, MAKERS[name])
    names = param_names(net, optimizer)
    tensors, tree = split_state(optimizer, names, plain_groups(MAKERS[name](model())))
    tensors = {key: value.clone() for key, value in tensors.items()}
    tree = json.loads(json.dumps(tree))
    twin = model()
    twin.load_state_dict(net.state_dict())
    other = MAKERS[name](twin)
    join_state(other, names, tensors, tree)
    for one, two in zip(flat(optimizer)[0].values(), flat(other)[0].values(), strict=True):
        assert one.dtype == two.dtype and torch.equal(one, two)
    for net_, optimizer_ in ((net, optimizer), (twin, other)):
        optimizer_.zero_grad()
        net_(torch.ones(2, 3)).square().sum().backward()
        optimizer_.step()
    for one, two in zip(net.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one, two)


def test_a_state_wider_than_its_parameter_stays_wide():
    net = model().to(torch.bfloat16)
    optimizer = stepped(net, MAKERS["sgd"])
    for state in optimizer.state.values():
        state["momentum_buffer"] = state["momentum_buffer"].float() + 1e-4
    names = param_names(net, optimizer)
    tensors, tree = split_state(optimizer, names, plain_groups(optimizer))
    other = MAKERS["sgd"](net)
    join_state(other, names, {key: value.clone() for key, value in tensors.items()}, tree)
    for one, two in zip(optimizer.state.values(), other.state.values(), strict=True):
        assert two["momentum_buffer"].dtype == torch.float32
        assert torch.equal(one["momentum_buffer"], two["momentum_buffer"])


def test_a_value_written_anew_is_a_wish_and_stays():
    net = model()
    optimizer = stepped(net, MAKERS["adamw"])
    names = param_names(net, optimizer)
    tensors, tree = split_state(optimizer, names, plain_groups(MAKERS["adamw"](net)))
    other = torch.optim.AdamW(net.parameters(), lr=0.01, amsgrad=True, weight_decay=0.5)
    join_state(other, names, tensors, tree)
    assert other.param_groups[0]["weight_decay"] == 0.5
    assert other.param_groups[0]["betas"] == (0.9, 0.999)


def test_a_state_that_only_pickle_could_keep_is_refused():
    net = model()
    optimizer = stepped(net, MAKERS["sgd"])
    optimizer.state[net[0].weight]["hook"] = object()
    with pytest.raises(TaskError, match=r"keeps a object at 0\.weight/hook\. .*train\.save=false"):
        split_state(optimizer, param_names(net, optimizer), [])


def test_other_groups_are_refused():
    net = model()
    optimizer = stepped(net, MAKERS["groups"])
    names = param_names(net, optimizer)
    tensors, tree = split_state(optimizer, names, plain_groups(optimizer))
    other = MAKERS["adamw"](net)
    with pytest.raises(RecordError, match=r"groups of \[2, 2\] parameters, now \[4\]"):
        join_state(other, param_names(net, other), tensors, tree)
    tree["state"]["ghost"] = {}
    with pytest.raises(RecordError, match="state of 'ghost'"):
        join_state(other, param_names(net, other), tensors, tree)


def test_parameters_outside_of_the_model_get_a_number():
    net, extra = model(), torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([*net.parameters(), extra], lr=0.1)
    assert param_names(net, optimizer)[-2:] == ["1.bias", "extra.4"]
