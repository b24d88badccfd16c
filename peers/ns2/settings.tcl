# Settings on the command line, for the scripts beside this one: each -name value replaces what `opt` has under that name.

foreach {name value} $argv {
    set name [string range $name 1 end]
    if {![info exists opt($name)]} {
        puts stderr "[file tail $argv0]: no setting -$name; there are: [lsort [array names opt]]"
        exit 2
    }
    set opt($name) $value
}
