"""``python -m tests.interceptors.redact_figures``: how much ``redact`` finds of what Faker makes, and how fast.

Every value stands in a sentence, half of the time beside the word that names it. What is no personal data is made
as well: orders, dates, versions, digests, serial numbers, prices. A value is found when nothing of it is left,
under any kind, as countries share forms; what is replaced anywhere else is wrong.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from faker import Faker
from rich.console import Console
from rich.table import Table

from hookbus_interceptors.authoring.testing import TestClient
from hookbus_interceptors.redact import Redact, RedactConfiguration

PAGE: Final = Path(__file__).parents[2] / "docs/interceptors/redact.md"
#: Between these two lines of the page its tables stand.
BEGIN, END = "<!-- tables: python -m tests.interceptors.redact_figures -->\n", "<!-- end of tables -->\n"

#: Without those whose check digits Faker does not make right: Aadhaar, RRN, the British number.
#: Kind, Faker's locale and method, and the word that names the value.
MADE: Final = (
    ("EMAIL", "en_US", "email", "e-mail"),
    ("EMAIL", "fr_FR", "company_email", "courriel"),
    ("IP", "en_US", "ipv4_public", "address"),
    *(("IBAN", each, "iban", "IBAN") for each in ("de_DE", "es_ES", "en_GB", "fr_FR", "it_IT", "nl_NL", "pl_PL")),
    ("CARD", "en_US", "credit_card_number", "card"),
    *(
        ("PHONE", each, "phone_number", "phone")
        for each in ("en_US", "en_GB", "es_ES", "de_DE", "fr_FR", "it_IT", "pt_BR")
    ),
    ("AR_CUIT", "es_AR", "ssn", "CUIT"),
    ("AT_SVNR", "de_AT", "ssn", "SVNR"),
    ("BE_NN", "nl_BE", "ssn", "rijksregisternummer"),
    ("BR_CNPJ", "pt_BR", "cnpj", "CNPJ"),
    ("BR_CPF", "pt_BR", "cpf", "CPF"),
    ("CA_SIN", "en_CA", "ssn", "SIN"),
    ("CH_AHV", "de_CH", "ssn", "AHV"),
    ("CL_RUT", "es_CL", "person_rut", "RUT"),
    ("CN_RIC", "zh_CN", "ssn", "身份证"),
    ("CZ_RC", "cs_CZ", "birth_number", "rodné číslo"),
    ("EE_IK", "et_EE", "ssn", "isikukood"),
    ("ES_CIF", "es_ES", "cif", "CIF"),
    ("ES_DNI", "es_ES", "nif", "DNI"),
    ("ES_NIE", "es_ES", "nie", "NIE"),
    ("FI_HETU", "fi_FI", "ssn", "hetu"),
    ("FR_NIR", "fr_FR", "ssn", "NIR"),
    ("GR_AMKA", "el_GR", "ssn", "AMKA"),
    ("HR_OIB", "hr_HR", "ssn", "OIB"),
    ("IL_ID", "he_IL", "ssn", "teudat zehut"),
    ("IT_CF", "it_IT", "ssn", "codice fiscale"),
    ("MX_CURP", "es_MX", "curp", "CURP"),
    ("NL_BSN", "nl_NL", "ssn", "BSN"),
    ("NO_FNR", "no_NO", "ssn", "fødselsnummer"),
    ("PL_PESEL", "pl_PL", "pesel", "PESEL"),
    ("RO_CNP", "ro_RO", "ssn", "CNP"),
    ("RU_INN", "ru_RU", "individuals_inn", "ИНН"),
    ("SE_PNR", "sv_SE", "ssn", "personnummer"),
    ("TH_PIN", "th_TH", "ssn", "thai id"),
    ("TR_TCKN", "tr_TR", "ssn", "TCKN"),
    ("US_ITIN", "en_US", "itin", "ITIN"),
    ("US_SSN", "en_US", "ssn", "SSN"),
)

#: Secrets in the forms that their services give them, and passwords, which have none.
SECRETS: Final[tuple[Callable[[Faker], str], ...]] = (
    lambda fake: fake.bothify("AKIA????????????????", letters="ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    lambda fake: "ghp_" + fake.pystr(36, 36),
    lambda fake: "glpat-" + fake.pystr(20, 20),
    lambda fake: "sk_live_" + fake.pystr(24, 24),
    lambda fake: fake.numerify("xoxb-############-") + fake.pystr(24, 24),
    lambda fake: "sk-ant-api03-" + fake.pystr(80, 80),
    lambda fake: f"eyJ{fake.pystr(30, 30)}.eyJ{fake.pystr(60, 60)}.{fake.pystr(43, 43)}",
)

NOTHING: Final[tuple[Callable[[Faker], str], ...]] = (
    lambda fake: fake.bothify("order ORD-####-??##"),
    lambda fake: f"order {fake.random_number(9, True)}",
    lambda fake: f"invoice {fake.random_number(10, True)}",
    lambda fake: f"tracking {fake.random_number(11, True)}",
    lambda fake: f"serial {fake.random_number(12, True)}",
    lambda fake: f"reference {fake.random_number(16, True)}",
    lambda fake: fake.bothify("part ########?").upper(),
    lambda fake: fake.iso8601(),
    lambda fake: fake.date("%d.%m.%Y") + " " + fake.time(),
    lambda fake: f"at {fake.unix_time()}{fake.random_number(3, True)}",
    lambda fake: f"version {fake.numerify('#.##.#.###')}",
    lambda fake: fake.user_agent(),
    lambda fake: fake.md5(),
    lambda fake: fake.sha1(),
    lambda fake: fake.sha256(),
    lambda fake: fake.uuid4(),
    lambda fake: fake.isbn13(),
    lambda fake: fake.ean13(),
    lambda fake: fake.pricetag(),
    lambda fake: f"{fake.latitude()}, {fake.longitude()}",
    lambda fake: fake.file_path(depth=3),
    lambda fake: fake.mac_address(),
    lambda fake: fake.license_plate(),
    lambda fake: f"{fake.random_number(4, True)} x {fake.random_number(4, True)} px",
    lambda fake: " ".join(str(fake.random_number(4, True)) for _ in range(6)),
)


class Sample(msgspec.Struct, frozen=True):
    """A sentence with a value of ``kind`` in it; with none where the kind is empty."""

    kind: str
    text: str
    value: str
    named: bool


class Figure(msgspec.Struct):
    """What came of the samples of one kind."""

    made: Counter[bool]
    found: Counter[bool]
    wrong: int = 0

    def recall(self, named: bool) -> float:
        """Of the values that were made, the share that was found."""
        return self.found[named] / self.made[named] if self.made[named] else 1.0

    @property
    def precision(self) -> float:
        """Of what was found, the share that was made."""
        right = sum(self.found.values())
        return right / (right + self.wrong) if right + self.wrong else 1.0


def samples(count: int, seed: int) -> Iterator[Sample]:
    """Yield *count* sentences of each kind and locale, and of each kind of nothing."""
    filler = Faker("en_US")
    filler.seed_instance(seed)
    for kind, locale, method, word in MADE:
        fake = Faker(locale)
        fake.seed_instance(seed)
        for number in range(count):
            value = str(getattr(fake, method)())
            yield _sample(filler, kind, value, word, named=number % 2 == 0)
    for made in SECRETS:
        for number in range(count):
            yield _sample(filler, "SECRET", made(filler), "token", named=number % 2 == 0)
    for _ in range(count):
        password = filler.password(length=14, special_chars=True)
        yield Sample("SECRET", f'{filler.sentence()} password: "{password}" {filler.sentence()}', password, True)
    for nothing in NOTHING:
        for _ in range(count):
            yield Sample("", f"{filler.sentence()} {nothing(filler)} {filler.sentence()}", "", False)


def _sample(filler: Faker, kind: str, value: str, word: str, *, named: bool) -> Sample:
    before = f"The {word} is {value}" if named else f"We have {value} here"
    return Sample(kind, f"{filler.sentence()} {before}, {filler.sentence().lower()}", value, named)


def figures(count: int, seed: int, **settings: object) -> dict[str, Figure]:
    """Return what ``redact`` finds in *count* sentences of each kind and locale, by kind."""
    regions = {locale[-2:] for kind, locale, _, _ in MADE if kind == "PHONE"}
    configuration = RedactConfiguration.model_validate({"phone_regions": regions, **settings})
    client = TestClient(Redact(configuration))
    found: dict[str, Figure] = {}
    for sample in samples(count, seed):
        answer = client.output(sample.text)
        rewritten = answer.target["content"]
        kinds = _kinds(answer.message)
        if sample.kind:
            figure = found.setdefault(sample.kind, Figure(Counter(), Counter()))
            figure.made[sample.named] += 1
            if kinds and not _left(sample.value, rewritten):
                figure.found[sample.named] += 1
                kinds[sample.kind if kinds[sample.kind] else next(iter(kinds))] -= 1
        for kind, wrong in kinds.items():
            found.setdefault(kind, Figure(Counter(), Counter())).wrong += wrong
    return found


def _left(value: str, rewritten: str) -> bool:
    """Whether a part of *value* that could be told from others is left."""
    return any(value[place : place + 6] in rewritten for place in range(max(1, len(value) - 5)))


def _kinds(message: str | None) -> Counter[str]:
    told = (message or "").removeprefix("Replaced: ").removesuffix(".")
    pairs = (each.split(" ") for each in told.split(", ") if each)
    return Counter({kind: int(count) for count, kind in pairs})


def speed(repeats: int) -> list[tuple[str, float, float]]:
    """Return for each size of a target the median and the 99th percentile of an answer's time, in milliseconds."""
    interceptor = Redact(RedactConfiguration(remember=0))
    fake = Faker("en_US")
    fake.seed_instance(1)
    rows = []
    for label, size in (("1 KB", 1024), ("64 KB", 65536)):
        text = ""
        while len(text) < size:
            text += f"{fake.paragraph()} Order {fake.random_number(9)} of {fake.date()}, by {fake.email()}. "
        context = {"interception_point": "output", "target": {"content": text[:size]}}
        took = []
        for _ in range(repeats):
            # Of this thread alone, so that a busy machine shows the same.
            began = time.thread_time()
            interceptor.intercept(context)
            took.append((time.thread_time() - began) * 1000)
        rows.append((label, statistics.median(took), statistics.quantiles(took, n=100)[98]))
    return rows


def main(
    count: Annotated[int, typer.Option(help="Sentences of each kind and locale.")] = 200,
    seed: Annotated[int, typer.Option(help="Where the generator begins.")] = 1,
    repeats: Annotated[int, typer.Option(help="How often each size is timed.")] = 100,
    document: Annotated[Path, typer.Option(help="The page whose tables are written anew.")] = PAGE,
) -> None:
    """Measure, print the tables, and write them into the page."""
    found = figures(count, seed)
    table = Table("kind", "made", "recall beside its word", "recall alone", "precision", "wrong")
    for kind, figure in sorted(found.items()):
        if made := sum(figure.made.values()):
            alone = f"{figure.recall(False):.3f}" if figure.made[False] else "–"
            row = (f"{figure.recall(True):.3f}", alone, f"{figure.precision:.3f}", str(figure.wrong))
            table.add_row(kind, str(made), *row)
    others = sum(figure.wrong for figure in found.values() if not figure.made)
    table.add_row("others", "0", "–", "–", "–", str(others))
    timed = Table("target", "p50 ms", "p99 ms")
    for label, median, last in speed(repeats):
        timed.add_row(label, f"{median:.1f}", f"{last:.1f}")
    console = Console(width=100)
    console.print(table, timed)
    told = f"{count} sentences of each kind and locale, {count * len(NOTHING)} without any, seed {seed}."
    before, _, rest = document.read_text().partition(BEGIN)
    page = f"{before}{BEGIN}\n{told}\n\n{_markdown(table)}\nCPU time of one answer.\n\n{_markdown(timed)}\n{END}"
    document.write_text(page + rest.partition(END)[2])


def _markdown(table: Table) -> str:
    columns = [list(column.cells) for column in table.columns]
    rows = [[str(column.header) for column in table.columns], ["---"] * len(columns), *zip(*columns, strict=True)]
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows)


if __name__ == "__main__":
    typer.run(main)
