"""Prediction files from models: images through timm or torchvision, texts through transformers.

Run: python -m experiments.predict images --help, or: python -m experiments.predict texts --help
"""
