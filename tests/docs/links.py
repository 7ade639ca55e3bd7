"""Fails unless each link of a folder's pages leads to a page and an anchor that exist, each anchor
is unique in its page, and no page loads anything from a network.

    links.py FOLDER
"""

import os
import sys
from html.parser import HTMLParser


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loaded = [], [], []
        self.feed(open(path).read())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            elif name == "href" and tag == "a":
                self.links.append(value)
            elif name in ("href", "src", "srcset", "data", "action", "poster"):
                self.loaded.append(value)


def main(folder):
    pages, wrong = {}, []
    for root, _, files in os.walk(folder):
        for file in files:
            if file.endswith(".html"):
                path = os.path.normpath(os.path.join(root, file))
                pages[path] = Page(path)
            elif file.endswith(".css"):
                text = open(os.path.join(root, file)).read()
                if "url(" in text or "@import" in text:
                    wrong.append(f"{file} loads something")
    for path, page in pages.items():
        wrong += [
            f"{path} has the anchor {i} twice" for i in set(page.ids) if page.ids.count(i) > 1
        ]
        for link in page.loaded + page.links:
            if "://" in link or link.startswith(("//", "mailto:")):
                if link in page.loaded:
                    wrong.append(f"{path} loads {link} from a network")
                continue
            file, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            if not os.path.isfile(target):
                wrong.append(f"{path}: the link to {link} leads nowhere")
            elif anchor and (target not in pages or anchor not in pages[target].ids):
                wrong.append(f"{path}: there is no anchor {link}")
    if wrong or not pages:
        raise SystemExit("\n".join(wrong) or f"{folder} has no pages")


main(sys.argv[1])
