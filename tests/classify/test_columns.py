import pyarrow as pa

from tracekit.arrow import codes, flags, ints, text_column


def test_pieces_of_columns_begin_where_they_say() -> None:
    # GIVEN a piece from the middle of each kind of column, nulls among it
    whole = pa.array([9, 9, 1, None, 3, 9], pa.int64())
    bits = pa.array([True] * 9 + [False, True, False])
    texts = text_column(ints(pa.array([0, 1, 2, 1, 0])), ["a", "bé", "c"])
    # WHEN and THEN
    assert ints(whole.slice(2, 3), if_null=-1).tolist() == [1, -1, 3]
    assert flags(bits.slice(9)).tolist() == [False, True, False]
    assert texts.slice(1, 3).to_pylist() == ["bé", "c", "bé"]
    assert codes(texts.slice(1, 3), lambda text: len(text or "")).tolist() == [2, 1, 2]


def test_missing_texts_and_plain_columns_have_codes_too() -> None:
    plain = pa.array(["x", None, "yy"])
    assert codes(plain, lambda text: -1 if text is None else len(text)).tolist() == [1, -1, 2]


def test_columns_of_nothing() -> None:
    assert ints(pa.array([], pa.int64())).tolist() == []
    assert flags(pa.array([], pa.bool_())).tolist() == []
