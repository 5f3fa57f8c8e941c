"""Languages: published stems, lists of stop words, and how the language of documents is
recognised."""

from __future__ import annotations

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from nltk.stem.snowball import SnowballStemmer

from atd_dask.errors import ConfigError, InputError
from atd_dask.text import segmentation
from atd_dask.text.guessing import guess_language
from atd_dask.text.languages import (
    LANGUAGES,
    SNOWBALL,
    WITH_STOP_WORDS,
    find_stemmer,
    find_stop_words,
)
from atd_dask.text.options import TextOptions, describe_text, read_text
from atd_dask.text.segmentation import choose_segmentation, cut_pairs, find_segmenter
from atd_dask.text.words import Tokeniser

# Words and stems from the vocabularies that the Snowball project publishes for each algorithm.
PUBLISHED = {
    "czech": "žánrech žánr, žánrové žánr, žárlivosti žárlivost, žárovky žárovk, žíly žíl, žížaly"
    " žížal",
    "danish": "østlig øst, østre østr, øvede øved, øvedes øved, øverste øverst, øvrige øvr, øvrigt"
    " øvr",
    "finnish": "irakia irak, irakiin irak, irakilainen irakilain, irakilaisen irakilais,"
    " irakilaisille irakilais, ipswichissä ipswich",
    "french": "yachts yacht, yokohama yokoham, zèle zel, zélés zel, zigzags zigzag, zoroastre"
    " zoroastr",
    "german": "zwitschern zwitsch, zwölfjährigen zwolfjahr, zwölfte zwolft, zylinder zylind,"
    " zylinderhüte zylinderhut, zylinderhüten zylinderhut, zypressen zypress",
    "greek": "αυτοκινησησ αυτοκινησ, αυτοκινητα αυτοκινητ, αυτοκινητων αυτοκινητ,"
    " αυτοκινητουσ αυτοκινητ, επιτροπουσ επιτροπ, υδροθεραπειεσ υδροθεραπει",
    "hungarian": "percekre perc, percenként perc, percet perc, percnél perc, percünk perc, percesek"
    " perces, peregnek pereg",
    "italian": "zona zon, zone zon, zucche zucc, zuccheri zuccher, zuccherino zuccherin, zucchero"
    " zuccher, zurigo zurig",
    "norwegian": "øvrige øvr, øydelegginga øydelegging, øyeblikkelig øyeblikk, øyeblikket øyeblikk,"
    " øyelokkene øyelokk, øynene øyn",
    "polish": "żłobiłby żłob, żłobiło żłob, żłobkować żłobkow, żłobkowałbym żłobkow, żłopałbym"
    " żłop, żłopię żłopi",
    "portuguese": "zinco zinc, zodíaco zodíac, zonas zon, zoneamento zoneament, zoológico zoológ,"
    " zumbido zumb",
    "romanian": "zvâcnind zvâcn, zvâcnirile zvâcnir, zvârlite zvârlit, zvonul zvon, zvonurile"
    " zvonur",
    "russian": "вагоном вагон, вагоны вагон, важнейшими важн, важностью важност, валериановых"
    " валерианов, валялись валя, павильонам павильон, падающего пада, падением паден, пакеты пакет",
    "serbian": "žurnalista žurnalist, žurnalističkog žurnalističk, žurnalistike žurnalistik,"
    " žurnalistiku žurnalistik, žurnalizma žurnalizm, žurnalu žurnal",
    "spanish": "zonas zon, zoológico zoolog, zoológicos zoolog, zorros zorr, zúñiga zuñig, zurdos"
    " zurd, zutano zutan",
    "swedish": "övervinna övervin, övervinnande övervin, övervägde överväg, överväldigad överväld,"
    " övningen övning, övriga övr",
}

# NLTK wrote the rules down by hand, some of them as they were before a later change: so much must
# agree on the stop words of the language.
AGREEMENT = {
    "arabic": 0.8,
    "danish": 0.99,
    "dutch": 0.75,
    "finnish": 0.99,
    "french": 0.99,
    "german": 0.99,
    "hungarian": 0.99,
    "italian": 0.99,
    "norwegian": 0.99,
    "portuguese": 0.99,
    "romanian": 0.99,
    "russian": 0.99,
    "spanish": 0.99,
    "swedish": 0.99,
}

SENTENCES = {
    "arabic": "قررت الحكومة أمس أن الضرائب على الشركات الصغيرة سوف تنخفض. كثير من الناس سعداء بهذا"
    " القرار، ولكن هناك أيضا نقد من المعارضة التي لا تعتقد أن المال يكفي في هذا العام",
    "bulgarian": "Правителството вчера реши, че данъците за малките предприятия ще бъдат намалени."
    " Много предприемачи са доволни от решението, но има и критики от опозицията.",
    "catalan": "El govern va decidir ahir que els impostos per a les petites empreses seran més"
    " baixos, però també hi ha crítiques de l'oposició, que no creu que els diners siguin prou.",
    "chinese": "政府昨天决定降低小企业的税收。许多企业家对这一决定感到高兴，但反对党也提出了批评。",
    "czech": "Vláda včera rozhodla, že daně pro malé podniky budou sníženy. Mnoho podnikatelů je s"
    " tím spokojeno, ale je tu také kritika ze strany opozice, která nevěří, že to bude stačit.",
    "danish": "Regeringen har i går besluttet, at skatterne for små virksomheder skal sættes ned."
    " Mange er glade for det, men der er også kritik fra oppositionen, som ikke tror på, at pengene"
    " rækker. Det blev sagt af en minister efter mødet.",
    "dutch": "De regering heeft gisteren besloten dat de belastingen voor kleine bedrijven worden"
    " verlaagd, maar er is ook kritiek van de oppositie, die niet gelooft dat het geld genoeg is.",
    "english": "The government decided yesterday that taxes for small firms will be lowered, but"
    " there is criticism from the opposition, which does not believe that the money will do.",
    "finnish": "Hallitus päätti eilen, että pienten yritysten veroja lasketaan. Monet yrittäjät"
    " ovat siitä iloisia, mutta oppositio ei usko että rahat riittävät, se sanoi eilen illalla.",
    "french": "Le gouvernement a décidé hier que les impôts pour les petites entreprises seraient"
    " réduits, mais il y a aussi des critiques de l'opposition, qui ne croit pas à cette décision.",
    "german": "Die Regierung hat gestern beschlossen, dass die Steuern für kleine Betriebe gesenkt"
    " werden, aber es gibt auch Kritik von der Opposition, die nicht glaubt, dass das Geld reicht.",
    "greek": "Η κυβέρνηση αποφάσισε χθες ότι οι φόροι για τις μικρές επιχειρήσεις θα μειωθούν.",
    "hebrew": "הממשלה החליטה אתמול כי המסים על עסקים קטנים יופחתו, אבל יש גם ביקורת על כך",
    "hindi": "सरकार ने कल फैसला किया कि छोटे व्यवसायों के लिए कर कम किए जाएंगे, लेकिन विपक्ष की ओर से"
    " आलोचना भी है, जो नहीं मानता कि पैसा काफी होगा",
    "hungarian": "A kormány tegnap úgy döntött, hogy a kisvállalkozások adóit csökkentik, de van"
    " kritika is az ellenzék részéről, amely nem hiszi, hogy a pénz elég lesz erre a célra.",
    "indonesian": "Pemerintah kemarin memutuskan bahwa pajak untuk usaha kecil akan diturunkan,"
    " tetapi ada juga kritik dari oposisi, yang tidak percaya bahwa uang itu akan cukup.",
    "italian": "Il governo ha deciso ieri che le tasse per le piccole imprese saranno più basse, ma"
    " ci sono anche critiche dell'opposizione, che non crede che il denaro sia sufficiente.",
    "japanese": "政府は昨日、小さな会社の税金を下げることを決めました。多くの人は喜んでいます。",
    "khmer": "រដ្ឋាភិបាលបានសម្រេចកាលពីម្សិលមិញថាពន្ធសម្រាប់អាជីវកម្មតូចនឹងត្រូវបានបញ្ចុះ",
    "korean": "정부는 어제 중소기업에 대한 세금을 낮추기로 결정했다.",
    "norwegian": "Regjeringen har i går bestemt at skattene for små bedrifter skal settes ned."
    " Mange er glade for det, men det er også kritikk fra opposisjonen, som ikke tror at pengene"
    " rekker. Det ble sagt av en statsråd etter møtet.",
    "persian": "دولت دیروز تصمیم گرفت که مالیات شرکت های کوچک را کاهش دهد اما مخالفان هم انتقاد"
    " دارند و باور نمی کنند که پول کافی باشد",
    "polish": "Rząd postanowił wczoraj, że podatki dla małych firm zostaną obniżone, ale są też"
    " głosy krytyki ze strony opozycji, która nie wierzy, że pieniędzy wystarczy.",
    "portuguese": "O governo decidiu ontem que os impostos para as pequenas empresas serão mais"
    " baixos, mas também há críticas da oposição, que não acredita que o dinheiro seja suficiente.",
    "romanian": "Guvernul a hotărât ieri că impozitele pentru firmele mici vor fi mai mici, dar"
    " există și critici din partea opoziției, care nu crede că banii vor fi de ajuns.",
    "russian": "Правительство вчера решило, что налоги для малых предприятий будут снижены, но есть"
    " и критика со стороны оппозиции, которая не верит, что денег хватит на все.",
    "serbian": "Влада је јуче одлучила да ће порези за мала предузећа бити смањени, али има и"
    " критика из опозиције, која не верује да ће новац бити довољан.",
    "slovak": "Vláda včera rozhodla, že dane pre malé podniky budú znížené, ale je tu aj kritika zo"
    " strany opozície, ktorá neverí, že peniaze budú stačiť na všetko.",
    "spanish": "El gobierno decidió ayer que los impuestos para las pequeñas empresas serán más"
    " bajos, pero también hay críticas de la oposición, que no cree que el dinero sea suficiente.",
    "swedish": "Regeringen har i går beslutat att skatterna för små företag ska sänkas, men det"
    " finns också kritik från oppositionen, som inte tror att pengarna räcker.",
    "thai": "รัฐบาลตัดสินใจเมื่อวานนี้ว่าจะลดภาษีสำหรับธุรกิจขนาดเล็ก",
    "turkish": "Hükümet dün küçük işletmeler için vergilerin düşürülmesine karar verdi, ama"
    " muhalefetten de eleştiri var; onlar daha fazla bilgi ve daha çok para istiyor.",
    "ukrainian": "Уряд учора вирішив, що податки для малих підприємств будуть знижені, але є й"
    " критика з боку опозиції, яка не вірить, що грошей вистачить на всі потреби.",
    "vietnamese": "Chính phủ hôm qua đã quyết định rằng thuế cho các doanh nghiệp nhỏ sẽ được giảm,"
    " nhưng cũng có những lời phê bình từ phe đối lập.",
}


@pytest.mark.parametrize("language", PUBLISHED)
def test_stems_are_the_published_ones(language: str) -> None:
    stem = find_stemmer(language)
    pairs = [pair.split() for pair in PUBLISHED[language].split(", ")]
    assert [(word, stem(word)) for word, _ in pairs] == [(word, root) for word, root in pairs]


@pytest.mark.parametrize("language", AGREEMENT)
def test_stems_agree_with_another_hand_s_writing_of_the_rules(language: str) -> None:
    stem, theirs = find_stemmer(language), SnowballStemmer(language)
    listed = sorted(find_stop_words(language))
    same = sum(stem(word) == theirs.stem(word) for word in listed)
    assert same >= AGREEMENT[language] * len(listed), f"{same} of {len(listed)}"


@pytest.mark.parametrize("language", sorted(SNOWBALL))
def test_every_stemmer_works_for_several_threads(language: str) -> None:
    words = sorted(find_stop_words(language)) or [f"slovo{n}" for n in range(50)]
    stem = find_stemmer(language)
    expected = list(map(stem, words))
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: list(map(stem, words)), range(8))) == [expected] * 8


def test_the_stemmers_are_those_of_the_package_not_of_another_that_is_installed() -> None:
    find_stemmer("german")("wort")
    assert "snowballstemmer.german_stemmer" in sys.modules


@pytest.mark.parametrize("language", sorted(WITH_STOP_WORDS))
def test_stop_words_are_words_of_the_tokeniser(language: str) -> None:
    listed = find_stop_words(language)
    assert len(listed) >= 40
    tokeniser = Tokeniser(TextOptions(language=language, min_letters=1))
    left = [word for word in listed if tokeniser.words(word)]
    # ICU cuts a few of the longer ones.
    assert len(left) <= (0.2 if language == "japanese" else 0.05) * len(listed), left


def test_a_language_without_stems_or_stop_words_has_none() -> None:
    assert find_stop_words("khmer") == frozenset()
    assert find_stemmer("vietnamese")("những") == "những"
    assert Tokeniser(TextOptions(language="other")).words("The Dogs") == ["the", "dogs"]


def test_explicit_values_are_followed_in_any_language() -> None:
    options = TextOptions(language="german", stop_words="english-1", stemmer="porter-nltk")
    assert Tokeniser(options).words("the und houses") == ["und", "hous"]
    plain = TextOptions(language="german", stop_words="none", stemmer="none")
    assert Tokeniser(plain).words("der Häuser") == ["der", "häuser"]


def test_english_is_described_as_ever() -> None:
    # Stores and keys of stages hold it: another description would make all of them anew.
    assert describe_text(TextOptions()) == {
        "letters": "unicode",
        "min_letters": 3,
        "stop_words": "english-1",
        "extra_stop_words": (),
        "stemmer": "porter-nltk",
        "min_distinct": 1,
        "max_distinct": None,
        "max_bytes": 10_000_000,
        "min_document_frequency": 1,
    }
    for options in (
        TextOptions(),
        TextOptions(language="german", tokens="code", extra_stop_words=("a",)),
    ):
        mine, back = Tokeniser(options), Tokeniser(read_text(describe_text(options)))
        assert mine.words("The Häuser 42") == back.words("The Häuser 42")


@pytest.mark.parametrize("language", SENTENCES)
def test_a_language_is_known_by_its_script_or_its_stop_words(language: str) -> None:
    guess = guess_language([SENTENCES[language]] * 10)
    assert guess.language == language
    assert guess.words.startswith(f"the documents look {language.title()}: ")


def test_the_line_says_what_follows() -> None:
    def line(language: str) -> str:
        return guess_language([SENTENCES[language]] * 10).words

    assert line("german") == "the documents look German: German stems and stop words"
    assert line("greek") == "the documents look Greek: Greek stems and no stop words"
    assert line("japanese") == "the documents look Japanese: no stems and Japanese stop words"
    assert line("thai") == "the documents look Thai: no stems and no stop words"


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["Zu wenig"], "the documents have too few letters to guess their language (7)"),
        (["qwrt zxcv bnmp "] * 100, "the documents have few stop words of any known language"),
        (
            [SENTENCES["danish"], SENTENCES["norwegian"]] * 10,
            "the documents may be",
        ),
    ],
)
def test_where_it_cannot_be_known_nothing_is_stemmed(texts: list[str], why: str) -> None:
    guess = guess_language(texts)
    assert guess.language == "other"
    assert guess.words.startswith(why)
    assert guess.words.endswith(
        ": no stemming and no stop words unless you set corpus.text.language"
    )


def test_a_guess_does_not_depend_on_the_order_of_the_documents() -> None:
    texts = [SENTENCES["german"]] * 9 + [SENTENCES["french"]] * 4
    assert guess_language(texts) == guess_language(reversed(texts))
    assert guess_language(texts).language == "german"


def test_auto_is_no_language_of_a_tokeniser() -> None:
    with pytest.raises(ConfigError, match="language must be chosen before"):
        Tokeniser(TextOptions(language="auto"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("東京の寿司職人がFreshな魚を使う", ["東京", "寿司", "職人", "fresh", "使う"]),
        ("国际贸易协定谈判在北京举行", ["国际", "贸易", "协定", "谈判", "北京", "举行"]),
        ("ประเทศไทยมีอาหารอร่อย", ["ประเทศไทย", "มี", "อาหาร", "อร่อย"]),
        ("ខ្ញុំចូលចិត្តអានសៀវភៅ", ["ខ្ញុំ", "ចូលចិត្ត", "អាន", "សៀវភៅ"]),
        ("ຂ້ອຍມັກອ່ານປຶ້ມ", ["ຂ້ອຍ", "ມັກ", "ອ່ານ", "ປຶ້ມ"]),
        ("ကျွန်တော်စာအုပ်ဖတ်ချင်တယ်", ["ကျွန်တော်", "စာအုပ်", "ဖတ်", "ချင်", "တယ်"]),
    ],
)
def test_icu_finds_words_in_scripts_without_blanks(text: str, words: list[str]) -> None:
    pytest.importorskip("icu4py", reason="needs the extra segmentation")
    tokeniser = Tokeniser(TextOptions(language="other", segmentation="icu"))
    assert [word for word in tokeniser.words(text) if word in words] == words
    assert all(word.lower() in text.lower() for word in tokeniser.words(text))


def test_pairs_overlap_and_keep_marks_with_their_letters() -> None:
    def cut(run: str) -> list[str]:
        return [run[start:end] for start, end in cut_pairs(run)]

    assert cut("東京都") == ["東京", "京都"]
    assert cut("東") == ["東"]
    assert cut("น้ำกิน") == ["น้ำ", "ำกิ", "กิน"]


def test_pairs_stand_in_their_places_among_other_words() -> None:
    tokeniser = Tokeniser(TextOptions(language="japanese", segmentation="bigrams"))
    text = "New東京都 Tower"
    assert list(tokeniser.locate(text)) == [
        (0, 3, "new"),
        (3, 5, "東京"),
        (4, 6, "京都"),
        (7, 12, "tower"),
    ]


def test_english_leaves_runs_of_such_letters_whole() -> None:
    assert Tokeniser(TextOptions()).words("東京都 Towers") == ["東京都", "tower"]


@pytest.fixture
def without_icu(monkeypatch: pytest.MonkeyPatch):
    """As if the extra were not installed."""
    caches = (choose_segmentation, find_segmenter, segmentation._warn)
    for some in caches:
        some.cache_clear()
    monkeypatch.setattr(segmentation, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "icu4py.breakers", None)
    yield
    for some in caches:
        some.cache_clear()


@pytest.mark.usefixtures("without_icu")
def test_missing_icu_is_told_once_when_such_text_comes() -> None:
    tokeniser = Tokeniser(TextOptions(language="japanese"))
    assert tokeniser.words("plain words") == ["plain", "words"]
    with pytest.warns(UserWarning, match=r"install atd-dask\[segmentation\]"):
        assert tokeniser.words("東京都") == ["東京", "京都"]
    assert tokeniser.words("大阪府") == ["大阪", "阪府"]


@pytest.mark.usefixtures("without_icu")
def test_a_worker_without_icu_is_told_apart() -> None:
    with pytest.raises(InputError, match=r"install atd-dask\[segmentation\] here and on every"):
        Tokeniser(TextOptions(language="thai", segmentation="icu")).words("ประเทศไทย")


def test_letters_are_folded_to_one_form() -> None:
    options = TextOptions(language="german", stemmer="none")
    words = Tokeniser(options).words("Ha\u0308user Häuser Donau\u00adschiff ＡＢＣ \ufb01nden")
    assert words == ["häuser", "häuser", "donauschiff", "abc", "finden"]


def test_turkish_has_two_letters_i() -> None:
    options = TextOptions(language="turkish", stemmer="none", stop_words="none")
    tokeniser = Tokeniser(options)
    assert tokeniser.words("ILIK İZMİR") == ["ılık", "izmir"]
    assert [(a, b) for a, b, _ in tokeniser.locate("ILIK İZMİR")] == [(0, 4), (5, 10)]


def test_marks_belong_to_words_and_two_dense_letters_are_enough() -> None:
    options = TextOptions(stop_words="none", stemmer="none")
    hindi = Tokeniser(replace(options, language="hindi"))
    assert hindi.words("किताबें पढ़ीं") == ["किताबें", "पढ़ीं"]
    korean = Tokeniser(replace(options, language="korean"))
    assert korean.words("한국 은 go gone") == ["한국", "gone"]


def test_a_tokeniser_of_any_language_travels() -> None:
    for language in LANGUAGES:
        if language != "auto":
            tokeniser = Tokeniser(TextOptions(language=language))
            again = pickle.loads(pickle.dumps(tokeniser))
            text = SENTENCES.get(language, "words")
            assert again.words(text) == tokeniser.words(text)
