from snnkit.lab.cli import main

main()
