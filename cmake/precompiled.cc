// CMake makes a precompiled header for a target's sources; those that many targets share belong to
// a target of this source alone (PrecompiledHeaders.cmake).
