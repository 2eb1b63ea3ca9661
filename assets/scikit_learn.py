"""Export small pipelines of scikit-learn, LightGBM and XGBoost as ONNX, and store ONNX Runtime's results for them.

The files are unmodified output of exporters. Inputs and results are in one file of the parent folder. README.md in this
folder explains how to install the imported packages.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import onnxmltools
import onnxruntime
import xgboost
from onnx import ModelProto
from onnxmltools.convert.common.data_types import FloatTensorType as FloatsOfTools
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    LabelEncoder,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

ROWS, OPSETS = 12, {"": 18, "ai.onnx.ml": 3}
"""number of stored rows of each input, and the opsets of the files"""
random = np.random.default_rng(0)
IRIS, number = load_iris(return_X_y=True)
IRIS = (IRIS + random.normal(scale=0.02, size=IRIS.shape)).astype(np.float32)
SPECIES = np.array(["setosa", "versicolor", "virginica"])[number]
DISEASE, progress = load_diabetes(return_X_y=True)
DISEASE = DISEASE[:120].astype(np.float32)
progress = progress[:120].astype(np.float32)
HOLES = IRIS.copy()
HOLES[random.random(IRIS.shape) < 0.1] = np.nan
TEXTS = np.array(
    [
        "the cat sat on the mat", "dogs run fast", "a cat and a dog", "fast cars run on the road", "the mat is red",
        "red cars, fast dogs!", "cat cat cat", "nothing here", "Road to the red house", "a dog sat",
    ]
)  # fmt: skip
TOPICS = np.array(["animal", "animal", "animal", "car", "thing", "car", "animal", "thing", "thing", "animal"])
CITIES = random.choice(["Berlin", "Paris", "Rome"], (60, 1)).astype(object)
GRADES = random.choice(["low", "mid", "high"], (60, 1)).astype(object)
AGES = random.integers(18, 80, (60, 1)).astype(np.float32)
BUYS = np.where(AGES[:, 0] > 50, "yes", "no")


@dataclass(frozen=True)
class Pipeline:
    """Model with its training data, and the names and values of its inputs."""

    model: Any
    x: Any
    y: Any = None
    inputs: dict[str, Any] = field(default_factory=dict)
    """dict of inputs, if there are more than x"""
    zipped: bool = False
    """whether probabilities are written as one map per row"""


def columns() -> Pipeline:
    """Return a pipeline for a table of numbers and strings with preprocessing per column."""
    table = np.concatenate([AGES.astype(object), CITIES, GRADES], 1)
    ages = make_pipeline(SimpleImputer(), StandardScaler())
    cities = make_pipeline(
        SimpleImputer(missing_values="", strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    prepared = ColumnTransformer([("age", ages, [0]), ("city", cities, [1]), ("grade", OrdinalEncoder(), [2])])
    inputs = {"age": AGES, "city": CITIES, "grade": GRADES}
    return Pipeline(make_pipeline(prepared, LogisticRegression()), table, BUYS, inputs, zipped=True)


def few(kind: Any, **options: Any) -> Any:
    """Return a model with few small trees."""
    return kind(random_state=0, max_depth=3, **options)


PIPELINES = {
    "scaled_logistic": Pipeline(make_pipeline(StandardScaler(), LogisticRegression()), IRIS, SPECIES, zipped=True),
    "columns": columns(),
    "holes_nearest": Pipeline(KNNImputer(n_neighbors=3), HOLES[:40]),
    "powers_binned": Pipeline(
        make_pipeline(PowerTransformer(), PolynomialFeatures(2), KBinsDiscretizer(3, encode="onehot-dense")), IRIS
    ),
    "normalized_bits": Pipeline(make_pipeline(Normalizer("l1"), Binarizer(threshold=0.2)), IRIS),
    "label_numbers": Pipeline(LabelEncoder(), SPECIES),
    "tfidf_logistic": Pipeline(make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression()), TEXTS, TOPICS),
    "counts_bayes": Pipeline(make_pipeline(CountVectorizer(), MultinomialNB()), TEXTS, TOPICS),
    "characters": Pipeline(CountVectorizer(analyzer="char"), TEXTS),
    "hashes": Pipeline(FeatureHasher(8, input_type="string"), CITIES),
    "forest": Pipeline(few(RandomForestClassifier, n_estimators=5), IRIS, SPECIES, zipped=True),
    "forest_of_two": Pipeline(few(RandomForestClassifier, n_estimators=5), IRIS, np.where(number == 1, "yes", "no")),
    "forest_of_numbers": Pipeline(few(RandomForestRegressor, n_estimators=5), DISEASE, progress),
    "boosting": Pipeline(few(GradientBoostingClassifier, n_estimators=3), IRIS, number),
    "boosting_of_holes": Pipeline(few(HistGradientBoostingClassifier, max_iter=3), HOLES, SPECIES),
    "boosting_of_numbers": Pipeline(few(HistGradientBoostingRegressor, max_iter=5), DISEASE, progress),
    "adaptive_boosting": Pipeline(AdaBoostClassifier(n_estimators=3, random_state=0), IRIS, SPECIES),
    "outliers_forest": Pipeline(IsolationForest(n_estimators=3, max_samples=16, random_state=0), IRIS),
    "vectors": Pipeline(SVC(), IRIS, SPECIES),
    "vectors_of_two": Pipeline(SVC(kernel="poly"), IRIS, np.where(number == 1, "yes", "no")),
    "vectors_probable": Pipeline(SVC(probability=True, random_state=0), IRIS, SPECIES),
    "vectors_of_numbers": Pipeline(SVR(C=100), DISEASE, progress),
    "vectors_of_one": Pipeline(OneClassSVM(), IRIS),
    "vectors_linear": Pipeline(LinearSVC(), IRIS, SPECIES),
    "neighbours": Pipeline(KNeighborsClassifier(), IRIS[::3], SPECIES[::3]),
    "bayes": Pipeline(GaussianNB(), IRIS, SPECIES),
    "perceptron": Pipeline(MLPClassifier((6,), max_iter=60, random_state=0), IRIS, SPECIES),
    "mixture": Pipeline(GaussianMixture(3, random_state=0), IRIS),
    "process": Pipeline(GaussianProcessRegressor(), DISEASE[:40], progress[:40]),
    "votes": Pipeline(
        VotingClassifier([("a", LogisticRegression()), ("b", few(DecisionTreeClassifier))], flatten_transform=False),
        IRIS, SPECIES,
    ),
    "stack": Pipeline(
        StackingClassifier([("a", LogisticRegression()), ("b", few(DecisionTreeClassifier))]), IRIS, SPECIES
    ),
    "calibrated": Pipeline(CalibratedClassifierCV(GaussianNB(), cv=2, method="isotonic"), IRIS, SPECIES),
}  # fmt: skip
BOOSTERS = {
    "lightgbm": (lightgbm.LGBMClassifier(n_estimators=3, max_depth=3, verbose=-1), IRIS, number),
    "lightgbm_of_two": (
        lightgbm.LGBMClassifier(n_estimators=3, max_depth=3, verbose=-1),
        HOLES,
        (number == 1).astype(int),
    ),
    "xgboost": (xgboost.XGBClassifier(n_estimators=3, max_depth=3), IRIS, number),
    "xgboost_of_holes": (xgboost.XGBRegressor(n_estimators=3, max_depth=3), HOLES, number),
}


def tensor_type(array: Any) -> Any:
    """Return the exporter's type of an input."""
    types = {"f": FloatTensorType, "i": Int64TensorType}
    return types.get(array.dtype.kind, StringTensorType)([None, *array.shape[1:]])


def exported(pipeline: Pipeline) -> tuple[ModelProto, dict[str, Any]]:
    """Return the exported model and its inputs."""
    model = pipeline.model
    model.fit(pipeline.x) if pipeline.y is None else model.fit(pipeline.x, pipeline.y)
    inputs = {name: array[:ROWS] for name, array in (pipeline.inputs or {"X": pipeline.x}).items()}
    has_maps = hasattr(model, "predict_proba") and hasattr(model, "classes_")
    options = {id(model): {"zipmap": False}} if has_maps and not pipeline.zipped else None
    types = [(name, tensor_type(array)) for name, array in inputs.items()]
    return convert_sklearn(model, initial_types=types, options=options, target_opset=OPSETS), inputs


def boosted(model: Any, x: Any, y: Any) -> tuple[ModelProto, dict[str, Any]]:
    """Return the exported model of another library and its inputs."""
    model.fit(x, y)
    convert = onnxmltools.convert_lightgbm if "LGBM" in type(model).__name__ else onnxmltools.convert_xgboost
    types = [("X", FloatsOfTools([None, x.shape[1]]))]
    return convert(model, initial_types=types, target_opset=15), {"X": x[:ROWS]}


def array_of(value: Any) -> Any:
    """Return a result as an array; for one map per row, the values in the order of labels."""
    if isinstance(value, list):
        value = [list(row.values()) for row in value]
    array = np.asarray(value)
    return array.astype(np.float32 if isinstance(value, list) else np.str_ if array.dtype == object else array.dtype)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "models", help="folder to write to")
    folder: Path = parser.parse_args().output
    (folder / "sklearn").mkdir(exist_ok=True)
    kept: dict[str, Any] = {}
    models = {name: exported(pipeline) for name, pipeline in PIPELINES.items()}
    models |= {name: boosted(*booster) for name, booster in BOOSTERS.items()}
    for name, (model, inputs) in models.items():
        model.graph.name = name  # the exporter generates a random one
        path = folder / "sklearn" / f"{name}.onnx"
        path.write_bytes(model.SerializeToString(deterministic=True))
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        arrays = {key: array.astype(object) if array.dtype.kind == "U" else array for key, array in inputs.items()}
        results = session.run(None, arrays)
        kept |= {
            f"{name}/in/{key}": array.astype(np.str_) if array.dtype == object else array
            for key, array in inputs.items()
        }
        kept |= {
            f"{name}/out/{output.name}": array_of(value)
            for output, value in zip(session.get_outputs(), results, strict=True)
        }
    np.savez_compressed(folder / "reference_sklearn.npz", **kept)


if __name__ == "__main__":
    main()
