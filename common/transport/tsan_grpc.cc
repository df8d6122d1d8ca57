// Only in builds for ThreadSanitizer. Debian's gRPC and Abseil are not instrumented. This file
// states the ordering that their interfaces promise:
// - What was written before a batch of operations starts is seen by whoever gets the batch's
//   completion.
// - What was written before a server starts is seen by its calls.
// - What a reaction did before it answered happens before the server's end returns.
// - What was read through one copy of an absl::Status happens before the last copy frees the text.
// The functions here take the place of the libraries' own, and call them.
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include <cstdint>

namespace {

template <typename Function>
Function* Real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

char a_server_started;
char a_batch_started;

grpc_event Seen(grpc_event event) {
  if (event.type == GRPC_OP_COMPLETE && event.tag != nullptr) __tsan_acquire(event.tag);
  __tsan_acquire(&a_server_started);
  return event;
}

}  // namespace

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count, void* tag,
                                      void* reserved) {
  static auto* const real = Real(&grpc_call_start_batch, "grpc_call_start_batch");
  if (tag != nullptr) __tsan_release(tag);
  __tsan_release(&a_batch_started);
  return real(call, ops, count, tag, reserved);
}

void grpc_server_start(grpc_server* server) {
  static auto* const real = Real(&grpc_server_start, "grpc_server_start");
  __tsan_release(&a_server_started);
  real(server);
}

void grpc_server_destroy(grpc_server* server) {
  static auto* const real = Real(&grpc_server_destroy, "grpc_server_destroy");
  real(server);
  __tsan_acquire(&a_batch_started);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline,
                                      void* reserved) {
  static auto* const real = Real(&grpc_completion_queue_next, "grpc_completion_queue_next");
  return Seen(real(queue, deadline, reserved));
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                       gpr_timespec deadline, void* reserved) {
  static auto* const real = Real(&grpc_completion_queue_pluck, "grpc_completion_queue_pluck");
  return Seen(real(queue, tag, deadline, reserved));
}

// absl::Status::UnrefNonInlined, which is private. `rep` is the address of the shared text, plus
// one.
void UnrefStatus(uintptr_t rep) __asm__("_ZN4absl7debian36Status15UnrefNonInlinedEm");
void UnrefStatus(uintptr_t rep) {
  static auto* const real = Real(&UnrefStatus, "_ZN4absl7debian36Status15UnrefNonInlinedEm");
  auto* const text = reinterpret_cast<void*>(rep - 1);
  __tsan_acquire(text);
  __tsan_release(text);
  real(rep);
}

}  // extern "C"
