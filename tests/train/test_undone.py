"""What is computed inside `undone` leaves no trace."""

import torch

from hemostat.train.undone import Buffers, undone


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


def test_statistics_go_back_to_the_start_of_a_window_however_often_it_is_taken():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(2))
    model.register_buffer("table", torch.arange(4.0))
    buffers = Buffers(model)
    for window in range(3):
        buffers.keep()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        for _ in range(2):
            model(torch.randn(5, 2) + window)
            assert model[0].num_batches_tracked == before["0.num_batches_tracked"] + 1
            buffers.put_back()
            assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
            buffers.keep()
        model(torch.randn(5, 2))
