"""The examples of the documents and of the package do what they say."""

import doctest
import re

import pytest
from conftest import LLAMA, ROOT

import tensorfs


@pytest.mark.parametrize("name", ["docs/python.md", "README.md"])
def test_page(name):
    text = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", (ROOT / name).read_text(), re.M | re.S))
    test = doctest.DocTestParser().get_doctest(text, {"MODEL": str(LLAMA)}, name, name, 0)
    assert test.examples and doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


def test_package():
    assert doctest.testmod(tensorfs, extraglobs={"MODEL": str(LLAMA)}).failed == 0
