"""The released files of logical inference, and the public repositories that hold them.

Bowman, Manning & Potts 2015, "Tree-structured composition in neural networks without
tree-structured architectures", as released with Ordered Memory (Shen et al. 2019; MIT licence,
copyright 2019 Yikang Shen).
"""

from __future__ import annotations

from lrbench.downloads import Download

FOLDER = "released/logic"  # in the folder of data
_RAW = "https://raw.githubusercontent.com/yikangshen"
MIRRORS = (
    f"{_RAW}/Ordered-Memory/master/data/propositionallogic",
    f"{_RAW}/Ordered-Neurons/9d193144971aa0f3f13a5f1b5246cf97477dc2f6/data/propositionallogic",
)
FILES = tuple(
    Download(name, size, sha256)
    for name, size, sha256 in (
        ("train0", 180, "6b7679d24a5121e747bbb6e1606c33773ef2803d2f1e3e5961f396bfe6d5ead1"),
        ("train1", 58_386, "b18140de23966481c20d6d4cac1f014322f760d6f891f643ff4beca48df1d347"),
        ("train2", 462_233, "b08cfe4e89fa941d053b7ba229f3743d25d0a73235c628bf45da645336ecc22a"),
        ("train3", 1_121_339, "ab0dd5694b97815ed29d2be7016790ba78b5173b68df5702ed4d0f9cad087041"),
        ("train4", 1_831_496, "ca53b91edcb966330ca6a4241ca313932f3dd897ce7af18b2446e6c551bb63fc"),
        ("train5", 2_493_499, "8c6db46c7527aea7f685400075c2cebad2a36acb4904371c052827f3769baa00"),
        ("train6", 2_824_732, "ab507a99dcd2f7a2c4a3c81fbdbf0e55e1169d48f1be177ee8278778f34cf141"),
        ("test0", 36, "0f0f47ea2699b52c8e49d84466afdae457111320669b328e752b690d21dab0ef"),
        ("test1", 13_456, "d846fd8e2e10c44b95796cd31a3ea9056bd2ab7e510447e92172d252b5a4ebcf"),
        ("test2", 88_889, "74d3b9346bbdff39e9f6bd81bb84446309b3918e4d6dbae820280958c935fb82"),
        ("test3", 205_435, "c22eb4b2120fd2599eea1772ff2983e44b5e5501f17bfedc7f526ab6ddea9557"),
        ("test4", 325_528, "171a5b9ff84c8c8972662d7ee84d9bae88a0b0caf121c779e1898d08ff23d056"),
        ("test5", 443_141, "4456aab62f4189a95645822d7fd22b8b12ebadc15679fb37ed93921d1ee11004"),
        ("test6", 498_119, "b99fa4c2b48db710213cbfcf948ab08fdaf327c07f5e7fa978747f1cf73c53d0"),
        ("test7", 462_270, "9951b19945ea6b7b388118b05ac497b197aba7e24fbd501c5d9cf71f57433da5"),
        ("test8", 374_167, "8b653190922c9b5902339714e79d22654e0f34e61d691e0d592589a92882bc30"),
        ("test9", 273_795, "6d404315b4e0b15e70084f621f7e9677deebf7378016b0df95fbb63487851ed5"),
        ("test10", 196_231, "bb3b3d312bb3223bdad030695d6004dc9d1d6131fe26a5531f2e54cc1bd1e780"),
        ("test11", 125_549, "f6ee99fac9b1459448f6b2dc0a263fab7493d9a1e05ed1d32e0674031aa4fda5"),
        ("test12", 139_799, "37d63e62b894cd2f25977d3092c71da23244cbadcfa12909183f57da938abb9f"),
    )
)
