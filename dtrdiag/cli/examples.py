"""Which commands does the help of each verb show? They run as they stand, in this order."""

from __future__ import annotations

Examples = tuple[tuple[str, str], ...]

EXAMPLES: dict[str, Examples] = {
    "": (
        ("The main job on a bundled trace, end to end:", "dtrdiag quickstart"),
        ("What is installed, and what is missing:", "dtrdiag doctor"),
        ("The options of a verb:", "dtrdiag run --help"),
    ),
    "quickstart": (
        ("The main job, with files to open in dtrdiag-demo:", "dtrdiag quickstart"),
        ("As JSON, with the files elsewhere:", "dtrdiag quickstart -o elsewhere --json"),
    ),
    "traces": (
        ("Which traces have a name?", "dtrdiag traces list"),
        ("How large is one, and what does it cost?", "dtrdiag traces info resnet-20"),
    ),
    "traces list": (
        ("Names to use as TRACE:", "dtrdiag traces list"),
        ("For a script:", "dtrdiag traces list --json"),
    ),
    "traces info": (
        ("A bundled trace:", "dtrdiag traces info resnet-20"),
        ("For a script, with the digest:", "dtrdiag traces info chain-64 --json"),
    ),
    "traces fetch": (
        ("The public traces, checked by their digest:", "dtrdiag traces fetch"),
        ("From a copy of the archive:", "dtrdiag traces fetch --from dtr-logs.zip"),
    ),
    "traces convert": (
        ("As a graph, to look at or change:", "dtrdiag traces convert chain-64 -o chain.json"),
        ("And back, as a DTR log:", "dtrdiag traces convert chain.json -o chain.log"),
    ),
    "record": (
        (
            "A model at full size, without the memory for it:",
            "dtrdiag record zoo:resnet-20 --fake",
        ),
        (
            "Other sizes, on real tensors, checked:",
            "dtrdiag record zoo:lstm --size small --set length=6 -o lstm.log --check",
        ),
        (
            "A function of your own, in mine.py:",
            "dtrdiag record mine:step --set batch=8 --fake",
        ),
    ),
    "run": (
        ("At 30 % of the memory that the trace needs:", "dtrdiag run resnet-20 -r 0.3"),
        ("Another policy, at a budget in bytes:", "dtrdiag run resnet-20 -p dtr-eq -b 60MB"),
        (
            "Keep every decision, for oom, diff and replay:",
            "dtrdiag run resnet-20 -r 0.3 -o run.jsonl",
        ),
    ),
    "fidelity": (
        (
            "A model of the zoo at two budgets:",
            "dtrdiag fidelity zoo:transformer -r 0.9 -r 0.7 --repeat 1",
        ),
        (
            "Two policies to the byte, with all logs:",
            "dtrdiag fidelity zoo:unet -p dtr -p lru -b 420kB --repeat 0 --logs live",
        ),
    ),
    "sweep": (
        ("From 30 % to 90 % of the peak:", "dtrdiag sweep resnet-20 --ratios 0.3:0.9:0.1"),
        (
            "Two policies side by side:",
            "dtrdiag sweep resnet-20 -p dtr -p dtr-eq --ratios 0.3,0.4",
        ),
        ("Keep results:", "dtrdiag sweep chain-64 --ratios 0.2:0.4:0.02 -o kept"),
        ("Go on with what was interrupted:", "dtrdiag sweep --resume -o kept"),
    ),
    "map": (
        ("Every budget from 20 % to 30 %:", "dtrdiag map chain-64 --from 0.2 --to 0.3"),
        ("Keep the map:", "dtrdiag map resnet-20 --from 0.3 --to 0.31 -o map.json"),
        ("Ask it for one budget:", "dtrdiag map map.json --at 0.305"),
    ),
    "ablate": (
        (
            "Two policies on every budget of a range:",
            "dtrdiag ablate chain-64 -p dtr -p dtr-eq --from 0.2 --to 0.22",
        ),
        (
            "Is an effect robust against noise on the costs?",
            "dtrdiag ablate chain-64 -p dtr --from 0.2 --to 0.21 --epsilon 0.01 --noise-seeds 2",
        ),
    ),
    "oom": (
        ("A run of a trace:", "dtrdiag oom resnet-20 -r 0.24"),
        ("A saved log, every step of it:", "dtrdiag oom dtrdiag-demo/fails.jsonl --expand"),
        ("The frontier for graphviz:", "dtrdiag oom dtrdiag-demo/fails.jsonl --dot frontier.dot"),
    ),
    "diff": (
        (
            "Two saved logs:",
            "dtrdiag diff dtrdiag-demo/works.jsonl dtrdiag-demo/fails.jsonl",
        ),
        ("One trace at two budgets:", "dtrdiag diff resnet-20 -r 0.25 -r 0.3"),
        ("One budget under two policies:", "dtrdiag diff resnet-20 -r 0.3 -p dtr -p dtr-eq"),
    ),
    "chains": (
        ("A run of a trace:", "dtrdiag chains resnet-20 -r 0.25"),
        (
            "Who pushed out whom, for a spreadsheet:",
            "dtrdiag chains dtrdiag-demo/works.jsonl --top 3 --csv displaced.csv",
        ),
    ),
    "whatif": (
        ("Equal scores broken the other way:", "dtrdiag whatif chain-64 -r 0.3 --tie-break first"),
        (
            "What if this storage had been kept?",
            "dtrdiag whatif dtrdiag-demo/fails.jsonl --keep 966",
        ),
    ),
    "replay": (
        ("The state at the end:", "dtrdiag replay dtrdiag-demo/fails.jsonl"),
        ("Does the log keep the rules?", "dtrdiag replay dtrdiag-demo/fails.jsonl --verify"),
        (
            "Some of its events:",
            "dtrdiag replay dtrdiag-demo/fails.jsonl --from 100 --to 110",
        ),
    ),
    "verify": (
        (
            "Is the log what a run of the trace has to give?",
            "dtrdiag verify dtrdiag-demo/works.jsonl --trace gpt2-dropout",
        ),
        (
            "And was each victim the policy's choice?",
            "dtrdiag verify run.jsonl --trace resnet-20 --scores",
        ),
    ),
    "graph": (
        ("The whole graph, for graphviz:", "dtrdiag graph chain-64 -r 0.5 -o graph.dot"),
        (
            "What was near storage 12 after event 500:",
            "dtrdiag graph dtrdiag-demo/fails.jsonl --at 500 --around 12 --hops 1",
        ),
    ),
    "report": (
        ("A page that opens in any browser:", "dtrdiag report chain-64 -r 0.5 -o run.html"),
        (
            "Two runs side by side:",
            "dtrdiag report dtrdiag-demo/works.jsonl dtrdiag-demo/fails.jsonl -o pair.html",
        ),
    ),
    "export": (
        ("Events for a spreadsheet:", "dtrdiag export chain-64 -r 0.5 --to csv -o events.csv"),
        (
            "The graph of storages for Gephi:",
            "dtrdiag export dtrdiag-demo/fails.jsonl --to graphml -o storages.graphml",
        ),
    ),
    "reproduce": (
        ("The claims that take seconds:", "dtrdiag reproduce --quick"),
        ("One of them, with its results:", "dtrdiag reproduce --only bundled-inversion -o claims"),
    ),
    "doctor": (
        ("What is here, and what is missing?", "dtrdiag doctor"),
        ("For a report of a fault:", "dtrdiag doctor --json"),
    ),
    "completion": (
        ("To see what it does:", "dtrdiag completion bash"),
        ("Kept where fish looks for it:", "dtrdiag completion fish > dtrdiag.fish"),
    ),
}
"""What each command is for, and the command, by verb; the empty name is the program's own help."""
