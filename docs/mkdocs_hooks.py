"""mkdocs' hooks: pages keep their places in the repository, so that links between them hold in
both."""
import pathlib
import re

from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).parents[1]
PAGES = ("*.md", "docs/**/*.md", "bench/**/*.md", "demo/**/*.md", "k8s/**/*.md", "clients/**/*.md", "observability/**/*.md")


def slug(text, _separator):
    """A heading's anchor as code hosts write it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def on_config(config):
    config.mdx_configs["toc"] = {"slugify": slug}
    return config


def linked(page):
    """Files that a page links to and that are not pages."""
    for target in re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", page.read_text()):
        path = (page.parent / target).resolve()
        if path.is_file() and path.is_relative_to(ROOT) and path.suffix != ".md":
            yield path


def on_files(_files, config):
    pages = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})
    paths = pages + sorted({path for page in pages for path in linked(page)})
    return Files([File(str(path.relative_to(ROOT)), str(ROOT), config.site_dir, config.use_directory_urls) for path in paths])


def on_page_markdown(markdown, page, config, files):  # pylint: disable=unused-argument
    """Lists within lists: code hosts take two or three spaces, Python's Markdown wants four. And no
    blocks of code within."""
    markdown = re.sub(r"^ {2,3}(?=(?:[-*]|\d+\.) )", "    ", markdown, flags=re.MULTILINE)
    return re.sub(r"^( {2,3})```.*?^\1```", lambda block: re.sub(rf"^{block[1]}", "", block[0], flags=re.MULTILINE), markdown,
                  flags=re.DOTALL | re.MULTILINE)
