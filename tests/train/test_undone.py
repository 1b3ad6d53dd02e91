"""What is computed inside `undone` leaves no trace."""

import torch

from hemostat.train.undone import undone


def test_buffers_gradients_and_random_numbers_are_as_before():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    params = list(model.parameters())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    numbers = torch.get_rng_state()
    with undone(model, params, torch.device("cpu")):
        model(torch.randn(8, 3)).sum().backward()
        assert not torch.equal(model[1].running_mean, before["1.running_mean"])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(param.grad is None for param in params)
    assert torch.equal(torch.get_rng_state(), numbers)
