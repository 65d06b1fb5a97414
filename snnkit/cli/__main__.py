from snnkit.cli import main

main()
