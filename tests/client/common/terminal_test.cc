#include "client/common/terminal.h"

#include <pty.h>
#include <unistd.h>

#include <cstdlib>

#include "gtest/gtest.h"

namespace tandem::client {
namespace {

TerminalFacts Terminal() {
  TerminalFacts facts;
  facts.is_terminal = true;
  facts.columns = 100;
  facts.locale = "en_GB.UTF-8";
  facts.term = "xterm-256color";
  return facts;
}

TEST(TerminalTest, AutoColoursATerminalThatHasColours) {
  EXPECT_TRUE(StyleFor("auto", Terminal()).color);
  TerminalFacts pipe = Terminal();
  pipe.is_terminal = false;
  EXPECT_FALSE(StyleFor("auto", pipe).color);
  TerminalFacts refusing = Terminal();
  refusing.no_color = "1";
  EXPECT_FALSE(StyleFor("auto", refusing).color);
  TerminalFacts dumb = Terminal();
  dumb.term = "dumb";
  EXPECT_FALSE(StyleFor("auto", dumb).color);
  dumb.term = "";
  EXPECT_FALSE(StyleFor("auto", dumb).color);
}

TEST(TerminalTest, WhatIsAskedForCounts) {
  TerminalFacts facts;
  facts.no_color = "1";
  EXPECT_TRUE(StyleFor("always", facts).color);
  EXPECT_FALSE(StyleFor("never", Terminal()).color);
}

TEST(TerminalTest, WidthIsThatOfTheTerminal) {
  EXPECT_EQ(StyleFor("auto", Terminal()).width, 100);
  TerminalFacts facts = Terminal();
  facts.columns = 7;
  EXPECT_EQ(StyleFor("auto", facts).width, kMinWidth);
  facts.columns = 999;
  EXPECT_EQ(StyleFor("auto", facts).width, kMaxWidth);
  facts.columns = 0;
  EXPECT_EQ(StyleFor("auto", facts).width, kDefaultWidth);
  facts = Terminal();
  facts.is_terminal = false;
  EXPECT_EQ(StyleFor("auto", facts).width, kDefaultWidth);
}

TEST(TerminalTest, Utf8WhereTheLocaleSaysSo) {
  TerminalFacts facts;
  for (const char* locale : {"en_GB.UTF-8", "C.utf8", "de_DE.utf-8@euro"}) {
    facts.locale = locale;
    EXPECT_TRUE(StyleFor("auto", facts).utf8) << locale;
  }
  for (const char* locale : {"", "C", "POSIX", "de_DE.ISO-8859-1"}) {
    facts.locale = locale;
    EXPECT_FALSE(StyleFor("auto", facts).utf8) << locale;
  }
}

TEST(TerminalTest, ARealTerminalAndAPipeAreAsked) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "NO_COLOR"}) unsetenv(name);
  setenv("LANG", "en_GB.UTF-8", /*overwrite=*/1);
  setenv("TERM", "xterm", 1);
  int ours = -1;
  int theirs = -1;
  const winsize size{24, 132, 0, 0};
  ASSERT_EQ(openpty(&ours, &theirs, nullptr, nullptr, &size), 0);
  TerminalFacts facts = AskTerminal(theirs);
  EXPECT_TRUE(facts.is_terminal);
  EXPECT_EQ(facts.columns, 132);
  EXPECT_EQ(facts.locale, "en_GB.UTF-8");
  EXPECT_EQ(facts.term, "xterm");
  EXPECT_TRUE(StyleFor("auto", facts).color);
  setenv("NO_COLOR", "1", 1);
  setenv("LC_CTYPE", "C", 1);
  EXPECT_FALSE(StyleFor("auto", AskTerminal(theirs)).color);
  EXPECT_FALSE(StyleFor("auto", AskTerminal(theirs)).utf8);
  setenv("LC_ALL", "C.UTF-8", 1);  // goes before LC_CTYPE
  EXPECT_TRUE(StyleFor("auto", AskTerminal(theirs)).utf8);
  close(ours);
  close(theirs);

  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  facts = AskTerminal(pipe_ends[1]);
  EXPECT_FALSE(facts.is_terminal);
  EXPECT_EQ(facts.columns, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(TerminalTest, PaintedTextIsAsWideAsPlain) {
  const TerminalStyle color{80, true, true};
  EXPECT_EQ(Paint("1", "a●", color), "\x1b[1ma●\x1b[0m");
  EXPECT_EQ(Paint("1", "a●", TerminalStyle()), "a●");
  EXPECT_EQ(Paint("1", "", color), "");
  EXPECT_EQ(Columns(Paint("38;5;32", "a●", color)), 2);
  EXPECT_EQ(Fit(Paint("1", "a●b", color), 2), "\x1b[1ma●\x1b[0m");
  EXPECT_EQ(Fit("a●b", 5), "a●b");
}

TEST(TerminalTest, WrapKeepsItemsWhole) {
  EXPECT_EQ(Wrap("aa bb cc", 7, 2), "  aa bb\n  cc\n");
  EXPECT_EQ(Wrap({"a b", "c d", "e"}, 2, 8, 0), "a b  c d\ne\n");
  EXPECT_EQ(Wrap("muchtoolong a", 4, 0), "muchtoolong\na\n");
  EXPECT_EQ(Wrap("", 4, 2), "");
}

}  // namespace
}  // namespace tandem::client
