"""The product's includes go one way, and the check finds one that does not."""
import pathlib
import tempfile
import unittest

import arrows


def tree(files):
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    root = pathlib.Path(folder.name)
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


class Arrows(unittest.TestCase):
    ROOMS = "a/low\na/left a/right\na\n"

    def wrong(self, files):
        found = []
        product, arrows.PRODUCT = arrows.PRODUCT, ("a",)
        try:
            found = arrows.wrong_arrows(tree(files), self.ROOMS)
        finally:
            arrows.PRODUCT = product
        return found

    def test_the_product_has_none(self):
        root = pathlib.Path(__file__).parents[2]
        self.assertEqual(arrows.wrong_arrows(root), [])
        self.assertEqual(arrows.circles(root), [])

    def test_the_public_api_knows_nothing_internal(self):
        root = pathlib.Path(__file__).parents[2]
        self.assertEqual(arrows.internal_in_public(root), [])
        root = tree({"proto/tandem/v1/a.proto": 'import "tandem/internal/v1/b.proto";\n',
                     "proto/tandem/internal/v1/b.proto": 'import "tandem/internal/v1/c.proto";\n',
                     "client/bench/x.cc": '#include "tandem/internal/v1/b.pb.h"\n'})
        self.assertEqual(arrows.internal_in_public(root),
                         ["proto/tandem/v1/a.proto knows tandem/internal/v1/b.proto, which is internal",
                          "client/bench/x.cc knows tandem/internal/v1/b.pb.h, which is internal"])

    def test_a_circle_of_sources_is_named(self):
        files = {"a/x.h": '#include "a/y.h"\n', "a/x.cc": '#include "a/x.h"\n', "a/y.h": "",
                 "a/y.cc": '#include "a/y.h"\n#include "a/z.h"\n', "a/z.h": '#include "a/x.h"\n'}
        (circle,) = arrows.circles(tree(files), ("a",))
        self.assertEqual(set(circle.split(" includes ")), {"a/x", "a/y", "a/z"})
        del files["a/z.h"]
        self.assertEqual(arrows.circles(tree(files), ("a",)), [])

    def test_down_is_right(self):
        self.assertEqual(self.wrong({"a/left/x.h": '#include "a/low/y.h"\n', "a/low/y.h": ""}), [])

    def test_up_is_named(self):
        wrong = self.wrong({"a/low/y.cc": '#include <a>\n#include "a/left/x.h"\n', "a/left/x.h": ""})
        self.assertEqual(wrong, ["a/low/y.cc includes a/left/x.h: a/left stands above a/low"])

    def test_beside_is_named(self):
        wrong = self.wrong({"a/left/x.h": '  #  include "a/right/z.h"\n', "a/right/z.h": ""})
        self.assertEqual(wrong, ["a/left/x.h includes a/right/z.h: a/right stands beside a/left"])

    def test_services_do_not_know_each_other(self):
        services, arrows.SERVICES = arrows.SERVICES, ("a", "b")
        product, arrows.PRODUCT = arrows.PRODUCT, ("a", "b")
        try:
            files = {"a/x.h": "", "b/y.cc": '#include "a/x.h"\n#include "b/y.h"\n', "b/y.h": ""}
            wrong = arrows.wrong_arrows(tree(files), "a\nb\n")
        finally:
            arrows.SERVICES, arrows.PRODUCT = services, product
        self.assertEqual(wrong, ["b/y.cc includes a/x.h: services never include each other"])

    def test_a_folder_within_a_room_belongs_to_it(self):
        wrong = self.wrong({"a/low/in/y.h": '#include "a/x.h"\n', "a/x.h": ""})
        self.assertEqual(wrong, ["a/low/in/y.h includes a/x.h: a stands above a/low"])

    def test_a_room_that_is_not_listed_is_named(self):
        product, arrows.PRODUCT = arrows.PRODUCT, ("b",)
        try:
            wrong = arrows.wrong_arrows(tree({"b/new/x.h": ""}), self.ROOMS)
        finally:
            arrows.PRODUCT = product
        self.assertEqual(len(wrong), 1)
        self.assertIn("b/new/x.h", wrong[0])


if __name__ == "__main__":
    unittest.main()
