// The fields of config.json that change what a decoder computes, in any family.
#pragma once

#include "model/files/json_fields.h"

namespace tandem::model {

// Reports each field that changes the arithmetic in some family and that this family's reader has
// not read, unless its value is the one that does nothing. Of a config.json's other fields (how a
// model was trained, what its classes are called) nothing is said. To be called after the reader.
void RefuseUnread(Fields& fields);

}  // namespace tandem::model
