"""National identifiers and cards: how they are written, what checks them, and the words that name them.

In a writing ``9`` is a digit, ``A`` a letter, ``X`` either; anything else is a separator, which may be missing or
be another one. The checks are ``python-stdnum``'s. A number that passes is trusted always where few of its form
do: one in fifty at most, in twenty where a letter is part of it. Others count only beside a word that names them,
or written with their own separators.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec
from stdnum import luhn

Check: TypeAlias = Callable[[str], bool]
#: When a number that passes its check counts: always, written with its own separators, or beside a word for it.
Trust: TypeAlias = Literal["always", "written", "named"]


class Identifier(msgspec.Struct, frozen=True):
    """One kind of number. ``country`` is empty where it belongs to none."""

    kind: str
    check: Check
    writings: tuple[str, ...]
    #: Words that name it, in lower case.
    words: tuple[str, ...]
    trust: Trust
    country: str = ""


#: Issuers of cards: Visa, Mastercard, American Express, Discover, JCB, Diners Club, UnionPay, Maestro.
_ISSUER: Final = re.compile(r"4|5[0-8]|6|3[0-689]|37|22(?:2[1-9]|[3-9])|2131|1800|2[3-6]|27(?:[01]|20)")


def is_card(number: str) -> bool:
    """Whether the digits of *number* are those of a card: an issuer's, with a right check digit."""
    digits = re.sub(r"\D", "", number)
    # One digit again and again passes the check, and is nobody's.
    return bool(_ISSUER.match(digits)) and luhn.is_valid(digits) and len(set(digits)) > 1


def is_national_insurance_number(number: str) -> bool:
    """Whether *number* has the form of a British one, which has no check digit; some prefixes are not given."""
    compact = re.sub(r"[^0-9A-Za-z]", "", number).upper()
    given = re.fullmatch(r"(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]\d{6}[A-D]", compact)
    return given is not None


_CARD_WORDS: Final = ("card", "cards", "visa", "mastercard", "amex", "maestro", "pan", "tarjeta", "cartão",
                      "carte", "karte", "carta", "credit", "debit")  # fmt: skip
CARDS: Final = (
    Identifier(
        "CARD", is_card, ("9999 9999 9999 9999", "9999 999999 99999", "9999 999999 9999"), _CARD_WORDS, "always"
    ),
    Identifier(
        "CARD",
        is_card,
        (
            "999999999999",
            "9999999999999",
            "9999 9999 9999 9999 9",
            "9999 9999 9999 9999 99",
            "9999 9999 9999 9999 999",
        ),
        _CARD_WORDS,
        "named",
    ),
)


def _id(kind: str, module: str, writings: str, words: str, *, trust: Trust = "always") -> Identifier:
    """Return the identifier that a module of ``stdnum`` checks; one without a module is the British one."""
    check = importlib.import_module(f"stdnum.{module}").is_valid if module else is_national_insurance_number
    return Identifier(kind, check, tuple(writings.split("|")), tuple(words.split(",")), trust, kind[:2])


NATIONAL_IDS: Final = (
    _id("AR_CUIT", "ar.cuit", "99-99999999-9", "cuit,cuil"),
    _id("AR_DNI", "ar.dni", "99.999.999", "dni,documento", trust="named"),
    _id(
        "AT_SVNR",
        "at.vnr",
        "9999 999999|9999999999",
        "svnr,sozialversicherungsnummer,versicherungsnummer",
        trust="written",
    ),
    _id("AU_TFN", "au.tfn", "999 999 999", "tfn,tax file number", trust="written"),
    _id("BE_NN", "be.nn", "99.99.99-999.99", "rijksregisternummer,registre national,nrn"),
    _id("BG_EGN", "bg.egn", "9999999999", "egn,егн"),
    _id("BR_CNPJ", "br.cnpj", "99.999.999/9999-99", "cnpj"),
    _id("BR_CPF", "br.cpf", "999.999.999-99", "cpf"),
    _id("CA_SIN", "ca.sin", "999-999-999", "sin,social insurance,nas", trust="written"),
    _id("CH_AHV", "ch.ssn", "999.9999.9999.99", "ahv,avs"),
    _id("CL_RUT", "cl.rut", "99.999.999-X|9.999.999-X", "rut,run", trust="written"),
    _id("CN_RIC", "cn.ric", "99999999999999999X", "身份证"),
    _id("CO_NIT", "co.nit", "999.999.999-9", "nit", trust="written"),
    _id("CZ_RC", "cz.rc", "999999/9999|999999/999", "rodné číslo,rodne cislo,rč,rc", trust="written"),
    _id("DE_IDNR", "de.idnr", "99 999 999 999", "idnr,steuer-id,steueridentifikationsnummer"),
    _id("DK_CPR", "dk.cpr", "999999-9999", "cpr", trust="written"),
    _id("DO_CEDULA", "do.cedula", "999-9999999-9", "cedula,cédula", trust="written"),
    _id("EC_CI", "ec.ci", "999999999-9", "cedula,cédula"),
    _id("EE_IK", "ee.ik", "99999999999", "isikukood"),
    _id("ES_CIF", "es.cif", "A-9999999-X|A-99999999", "cif"),
    _id("ES_DNI", "es.dni", "99.999.999-A|9.999.999-A", "dni,nif"),
    _id("ES_NIE", "es.nie", "A-9999999-A", "nie"),
    _id("FI_HETU", "fi.hetu", "999999-999X|999999A999X", "hetu,henkilötunnus"),
    _id("FR_NIF", "fr.nif", "99 99 999 999 999", "nif,spi,numéro fiscal"),
    _id("FR_NIR", "fr.nir", "9 99 99 9X 999 999 99", "nir,sécurité sociale"),
    _id("GB_NHS", "gb.nhs", "999 999 9999", "nhs", trust="written"),
    _id("GB_NINO", "", "AA 99 99 99 A", "nino,national insurance"),
    _id("GR_AMKA", "gr.amka", "99999999999", "amka,αμκα"),
    _id("HR_OIB", "hr.oib", "99999999999", "oib", trust="written"),
    _id("ID_NIK", "id.nik", "9999999999999999", "nik,ktp", trust="written"),
    _id("IE_PPS", "ie.pps", "9999999A|9999999AA", "pps,ppsn"),
    _id("IL_ID", "il.idnr", "99999999-9", "teudat zehut,תעודת זהות", trust="written"),
    _id("IN_AADHAAR", "in_.aadhaar", "9999 9999 9999", "aadhaar,aadhar,uidai,आधार", trust="named"),
    _id("IN_PAN", "in_.pan", "AAAAA9999A", "pan"),
    _id("IS_KT", "is_.kennitala", "999999-9999", "kennitala", trust="written"),
    _id("IT_CF", "it.codicefiscale", "AAAAAAXXAXXAXXXA", "codice fiscale"),
    _id("KR_RRN", "kr.rrn", "999999-9999999", "주민등록번호,rrn"),
    _id("LT_AK", "lt.asmens", "99999999999", "asmens kodas"),
    _id("MX_CURP", "mx.curp", "AAAA999999AAAAAAX9", "curp"),
    _id("MX_RFC", "mx.rfc", "AAAA-999999-XXX|AAA-999999-XXX", "rfc"),
    _id("MY_NRIC", "my.nric", "999999-99-9999", "nric,mykad", trust="written"),
    _id("NL_BSN", "nl.bsn", "999999999", "bsn,burgerservicenummer", trust="written"),
    _id("NO_FNR", "no.fodselsnummer", "999999 99999", "fødselsnummer,fodselsnummer,fnr,personnummer"),
    _id("NZ_IRD", "nz.ird", "99-999-999|999-999-999", "ird", trust="written"),
    _id("PE_DNI", "pe.cui", "99999999-X", "dni,cui", trust="written"),
    _id("PK_CNIC", "pk.cnic", "99999-9999999-9", "cnic,nadra", trust="written"),
    _id("PL_PESEL", "pl.pesel", "99999999999", "pesel"),
    _id("PT_CC", "pt.cc", "99999999 9 XX9", "cartão de cidadão", trust="written"),
    _id("PT_NIF", "pt.nif", "999 999 999", "nif,contribuinte", trust="written"),
    _id("RO_CNP", "ro.cnp", "9999999999999", "cnp"),
    _id("RU_INN", "ru.inn", "999999999999|9999999999", "инн,inn", trust="written"),
    _id("SE_PNR", "se.personnummer", "999999-9999|99999999-9999", "personnummer"),
    _id("SI_EMSO", "si.emso", "9999999999999", "emšo,emso"),
    _id("SK_RC", "sk.rc", "999999/9999", "rodné číslo,rodne cislo,rč,rc", trust="written"),
    _id("TH_PIN", "th.pin", "9-9999-99999-99-9", "เลขประจำตัวประชาชน,thai id", trust="written"),
    _id("TR_TCKN", "tr.tckimlik", "99999999999", "tckn,tc kimlik,t.c. kimlik"),
    _id("UA_RNTRC", "ua.rntrc", "9999999999", "рнокпп,іпн", trust="written"),
    _id("US_ITIN", "us.itin", "999-99-9999", "itin", trust="written"),
    _id("US_SSN", "us.ssn", "999-99-9999", "ssn,social security", trust="written"),
    _id("VE_RIF", "ve.rif", "A-99999999-9", "rif"),
    _id("VN_MST", "vn.mst", "9999999999|9999999999-999", "mã số thuế,mst", trust="written"),
    _id("ZA_ID", "za.idnr", "999999 9999 999", "id number,identity number"),
)
COUNTRIES: Final = frozenset(each.country for each in NATIONAL_IDS)
