// Four tasks in a process, one behind them all, and one whose first attempt fails: Nextflow tries it again.
process square {
    input:
    val number

    output:
    path 'squared'

    "echo \$(($number * $number)) > squared"
}

process once_more {
    errorStrategy 'retry'

    output:
    path 'attempt'

    "echo $task.attempt > attempt; test $task.attempt = 2"
}

process collected {
    publishDir '.', mode: 'copy'

    input:
    path 'squared*'
    path 'attempt'

    output:
    path 'joined'

    'cat squared* | sort -n > joined; cat attempt >> joined'
}

workflow {
    collected(square(channel.of(1, 2, 3, 4)).collect(), once_more())
}
