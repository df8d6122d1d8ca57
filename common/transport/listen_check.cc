#include "common/transport/listen_check.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/base/listen.h"
#include "common/base/status_macros.h"

namespace tandem::transport {

absl::Status CheckListenAddresses(const std::vector<ListenAddress>& addresses) {
  std::vector<base::Socket> held;  // so that a port that is named twice is found
  for (const ListenAddress& where : addresses) {
    TANDEM_ASSIGN_OR_RETURN(
        const base::Address address,
        base::ParseAddress(where.flag, where.address, base::AddressUse::kListen));
    absl::StatusOr<std::vector<base::Socket>> sockets = base::Listen(address);
    if (!sockets.ok()) {
      return absl::UnavailableError(absl::StrCat(where.flag, ": ", sockets.status().message()));
    }
    for (base::Socket& socket : *sockets) held.push_back(std::move(socket));
  }
  return absl::OkStatus();
}

}  // namespace tandem::transport
