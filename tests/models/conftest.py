import os

from experiments.predict.models import import_torchvision

# nothing here may ask a hub: models are made in the tests
os.environ["HF_HUB_OFFLINE"] = "1"
import_torchvision()  # before transformers, which imports it too
