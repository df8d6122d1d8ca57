// Runs what is posted one at a time, in order, and has no thread of its own. The state of one
// session or one request needs no lock if it is touched by such tasks only.
#pragma once

#include <memory>

#include "common/concurrency/executor.h"

namespace tandem::concurrency {

// Runs tasks one at a time, in the order of Post. What one task wrote, the next one sees, whatever
// thread it runs on. A Post from inside a task only queues.
//
// The posting thread runs the tasks, if nobody runs them yet, until none is left: so a task must be
// short, or be posted from a thread that has the time.
//
// May be destroyed by one of its own tasks; those still queued then run nevertheless (they own what
// they use). Never refuses a task.
class Strand final : public Executor {
 public:
  Strand();
  ~Strand() override;
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  bool Post(Task task) override;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the Post that is running tasks
};

}  // namespace tandem::concurrency
