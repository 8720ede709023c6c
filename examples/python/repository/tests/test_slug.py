import unittest

from slugs import slug


class SlugTest(unittest.TestCase):
    def test_words(self):
        self.assertEqual(slug("Tools for Agents"), "tools-for-agents")

    def test_punctuation(self):
        self.assertEqual(slug("Hello, World!"), "hello-world")
