// From the numbers of a product by group to the code that was compiled for them.
#pragma once

#include "model/cpu/grouped.h"

namespace tandem::model::cpu {

// Calls Way::Rows<integers, scales, rows>(args, out), which one instruction set has for each. `Way`
// is of the source's own: code for one instruction set is not shared with another's.
template <class Way>
struct GroupedDispatch {
  template <Integers kIntegers, ScaleType kScales>
  static void Panel(const GroupedArgs& args, float (*out)[32]) {
    switch (args.rows) {
      case 1:
        return Way::template Rows<kIntegers, kScales, 1>(args, out);
      case 2:
        return Way::template Rows<kIntegers, kScales, 2>(args, out);
      case 3:
        return Way::template Rows<kIntegers, kScales, 3>(args, out);
      case 4:
        return Way::template Rows<kIntegers, kScales, 4>(args, out);
      case 5:
        return Way::template Rows<kIntegers, kScales, 5>(args, out);
      case 6:
        return Way::template Rows<kIntegers, kScales, 6>(args, out);
      case 7:
        return Way::template Rows<kIntegers, kScales, 7>(args, out);
      case 8:
        return Way::template Rows<kIntegers, kScales, 8>(args, out);
    }
  }

  template <Integers kIntegers>
  static void PanelOf(const GroupedArgs& args, float (*out)[32]) {
    if (args.layout.scales == ScaleType::kFloat16) {
      return Panel<kIntegers, ScaleType::kFloat16>(args, out);
    }
    Panel<kIntegers, ScaleType::kFloat32>(args, out);
  }

  static void Multiply(const GroupedArgs& args, float (*out)[32]) {
    switch (args.layout.integers) {
      case Integers::kInt4:
        return PanelOf<Integers::kInt4>(args, out);
      case Integers::kInt4Centered:
        return PanelOf<Integers::kInt4Centered>(args, out);
      case Integers::kInt8:
        return PanelOf<Integers::kInt8>(args, out);
    }
  }
};

}  // namespace tandem::model::cpu
