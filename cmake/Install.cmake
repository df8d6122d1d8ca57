# cmake --install BUILD --prefix PREFIX: what users run, and what shells read to complete its words.

include(GNUInstallDirs)
set(programs tandem tandem-draft tandem-target tandem-orchestrator)
install(TARGETS ${programs} tandem-model RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# `tandem-model` finds it in ../lib beside its folder. It needs the LibTorch that it was built with.
if(TANDEM_WITH_TORCH)
  set_target_properties(libtandem_torch PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS libtandem_torch LIBRARY DESTINATION lib OPTIONAL)
endif()
# bash and fish look for a file by the name of the program.
set(scripts ${CMAKE_SOURCE_DIR}/client/completion)
foreach(program ${programs})
  install(FILES ${scripts}/tandem.bash RENAME ${program}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${scripts}/tandem.fish RENAME ${program}.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()
install(FILES ${scripts}/tandem.zsh RENAME _tandem DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
