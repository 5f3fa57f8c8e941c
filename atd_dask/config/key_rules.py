"""The rules of keys whose classes belong to other packages: sources, text and clusters."""

from __future__ import annotations

from atd_dask.config.cluster_options import ClusterOptions, LocalOptions, TlsFiles
from atd_dask.config.consistency import USED_KEYS
from atd_dask.config.settings import Rule, RuleTable
from atd_dask.text.languages import LANGUAGES
from atd_dask.text.options import Source, TextOptions
from atd_dask.text.segmentation import SEGMENTATIONS
from atd_dask.text.splitting import TOKENS
from atd_dask.text.words import LETTERS, STEMMERS, STOP_WORDS

FORMATS = tuple(USED_KEYS)

RULES: RuleTable = {
    Source: {
        "format": Rule("the format of the documents", choices=FORMATS),
        "path": Rule("a file, a folder or a glob", is_input=True),
        "labels": Rule("a file with a line of labels for each document (ldac, npz)", is_input=True),
        "vocabulary": Rule(
            "a file with a word on each line, the first for term 0 (ldac, npz)",
            is_input=True,
        ),
        "id_field": Rule("the field with the id of a document (jsonl, csv, tsv, parquet)"),
        "text_field": Rule("the field with its text (jsonl, csv, tsv, parquet)"),
        "labels_field": Rule("the field with its labels (jsonl, csv, tsv, parquet)"),
        "date_field": Rule(
            "the field with its date, such as 2026-11-17 or 2026-11-17T08:30:00Z, or seconds since"
            " 1970 (jsonl, csv, tsv, parquet)"
        ),
        "encoding": Rule("the encoding of the text, which must extend ASCII"),
    },
    TextOptions: {
        "language": Rule(
            "the language of the documents; `auto` guesses it from train, `other` is any that is"
            " not listed",
            choices=LANGUAGES,
        ),
        "tokens": Rule(
            "`words+numbers` also keeps numbers and words with digits; `code` is for logs and"
            " source code",
            choices=TOKENS,
        ),
        "letters": Rule("which letters make words", choices=LETTERS),
        "min_letters": Rule(
            "shorter words are dropped; 2 letters are enough for a word with a digit or in a script"
            " such as Han, kana, Hangul and Thai, unless `language` is english and `tokens` words",
            at_least=1,
        ),
        "stop_words": Rule(
            "the list of words to drop; `language` is the list of the language, english-1"
            " for English",
            choices=STOP_WORDS,
        ),
        "extra_stop_words": Rule("more words to drop"),
        "stemmer": Rule(
            "how words are stemmed; `language` is the stemmer of the language, porter-nltk for"
            " English",
            choices=STEMMERS,
        ),
        "segmentation": Rule(
            "how text in scripts without spaces between words is cut; `auto` is `icu` if the extra"
            " `segmentation` is installed, or else `bigrams`",
            choices=SEGMENTATIONS,
        ),
        "min_distinct": Rule("documents with fewer distinct words are skipped", at_least=1),
        "max_distinct": Rule("documents with more distinct words are skipped", at_least=1),
        "max_bytes": Rule("larger documents are skipped", at_least=1),
        "min_document_frequency": Rule(
            "words in fewer training documents are left out of the vocabulary", at_least=1
        ),
    },
    ClusterOptions: {
        "local": Rule("a cluster of processes on this machine"),
        "address": Rule("the address of a Dask scheduler, such as tcp://host:8786"),
        "scheduler_file": Rule("the file that a Dask scheduler wrote", is_input=True),
        "class_": Rule("a cluster class to start, such as dask_kubernetes.operator.KubeCluster"),
        "kwargs": Rule("keyword arguments for the class"),
        "adapt": Rule("arguments for its method adapt, such as minimum and maximum"),
        "patience": Rule(
            "seconds that a job waits while no worker is working for it; it then ends, and can be"
            " resumed",
            more_than=0,
        ),
        "worker_timeout": Rule(
            "seconds of silence after which a worker counts as lost, on a cluster that the job"
            " starts",
            more_than=0,
        ),
        "security": Rule("TLS, with PEM files"),
    },
    LocalOptions: {
        "workers": Rule("the number of processes; auto is one for each CPU", at_least=1),
        "threads": Rule("threads per process; auto divides the CPUs among them", at_least=1),
        "memory_limit": Rule(
            "the memory limit of each process",
            pattern=r"auto|[0-9]+(\.[0-9]+)? ?([kMGTP]i?)?B?",
            pattern_words="auto, a number of bytes or a size such as 4GiB",
        ),
    },
    TlsFiles: {
        "ca": Rule("the certificate of the certificate authority", is_input=True),
        "cert": Rule("the certificate of this job", is_input=True),
        "key": Rule("the private key for that certificate", is_input=True),
    },
}
