// A library with an entry point, as another build of Tandem would have it.
#include "torch/library/interface.h"

#ifndef FAKE_ENTRY
#define FAKE_ENTRY tandem_torch_library
#endif

extern "C" const tandem::torch::Library* FAKE_ENTRY() {
  static const tandem::torch::Library library = {FAKE_INTERFACE_VERSION, "tandem 9.9.9, compiler X",
                                                 "2.13.0"};
  return &library;
}
