"""Whole jobs in other languages: `auto` recognises the language, and a planted group is found."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace

import pytest

from atd_dask.cli.outputs import make_progress
from atd_dask.config.loader import load
from atd_dask.pipelines.ingest import ingest
from atd_dask.pipelines.run import run
from atd_dask.stages.text_settings import resolve_as
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.run_layout import RunLayout
from atd_dask.text import segmentation
from atd_dask.text.options import TextOptions
from atd_dask.text.segmentation import choose_segmentation
from tests.clusters import local_client
from tests.pipelines import sweeping

CONFIG = """
corpus:
  train: {format: jsonl, path: train.jsonl}
  test: {format: jsonl, path: test.jsonl}
  text: {language: auto}
null_model: {topics: 8}
detection:
  seeds: 20
  membership: {replicates: 100}
  significance: {replicates: 100, searches: 9}
evaluation: {anomalous: [planted]}
"""


@dataclass(frozen=True)
class Language:
    """Words by topic, of which the last is planted; `small` words are in every document."""

    name: str
    topics: tuple[str, ...]
    small: str
    blank: str = " "


GERMAN = Language(
    "german",
    (
        "Bank Banken Zins Zinsen Kredit Kredite Krediten Aktie Aktien Börse Börsen Kurs Kurse"
        " Kursen Anleger Anlegern Gewinn Gewinne Gewinnen Konto Konten Währung Währungen Schuld"
        " Schulden Sparer Dividende Dividenden Anleihe Anleihen",
        "Spiel Spiele Spielen Mannschaft Mannschaften Tor Tore Toren Trainer Trainern Verein"
        " Vereine Vereinen Stürmer Torwart Liga Ligen Pokal Pokale Stadion Stadien Schiedsrichter"
        " Niederlage Niederlagen Sieg Siege Siegen Tabelle Tabellen Halbzeit",
        "Arzt Ärzte Ärzten Klinik Kliniken Patient Patienten Krankheit Krankheiten Impfung"
        " Impfungen Medikament Medikamente Medikamenten Operation Operationen Fieber Virus Viren"
        " Pflege Pfleger Therapie Therapien Diagnose Diagnosen Blut Herz Herzen Lunge Lungen",
        "Schule Schulen Lehrer Lehrern Schüler Schülern Klasse Klassen Unterricht Prüfung"
        " Prüfungen Note Noten Fach Fächer Fächern Abitur Zeugnis Zeugnisse Universität"
        " Universitäten Student Studenten Vorlesung Vorlesungen Bildung Heft Hefte Tafel Tafeln",
        "Regen Sturm Stürme Stürmen Wolke Wolken Sonne Temperatur Temperaturen Schnee Frost Wind"
        " Winde Winden Gewitter Gewittern Nebel Hitze Vorhersage Vorhersagen Grad Tief Hoch"
        " Niederschlag Niederschläge Hagel Blitz Blitze Donner Luftdruck",
        "Küche Küchen Rezept Rezepte Rezepten Suppe Suppen Mehl Butter Zwiebel Zwiebeln Kartoffel"
        " Kartoffeln Topf Töpfe Töpfen Ofen Öfen Salz Pfeffer Kuchen Teig Teige Gemüse Soße Soßen"
        " Fleisch Braten Messer Löffel",
        "Gericht Gerichte Gerichten Richter Richtern Urteil Urteile Urteilen Anwalt Anwälte"
        " Anwälten Klage Klagen Zeuge Zeugen Strafe Strafen Gesetz Gesetze Gesetzen Prozess"
        " Prozesse Haft Berufung Berufungen Angeklagte Angeklagten Verfahren Beweis Beweise",
        "Zug Züge Zügen Bahnhof Bahnhöfe Schiene Schienen Fahrplan Fahrpläne Straße Straßen Auto"
        " Autos Autobahn Autobahnen Stau Staus Verspätung Verspätungen Brücke Brücken Tunnel"
        " Fahrer Fahrern Reifen Motor Motoren Tankstelle Tankstellen Ampel",
        "Vulkan Vulkane Vulkanen Lava Asche Ausbruch Ausbrüche Ausbrüchen Krater Kratern Magma"
        " Erdbeben Beben Gestein Gesteine Gesteinen Geologe Geologen Schlot Schlote Rauch Gipfel"
        " Gipfeln Lawine Lawinen Schwefel Glut Bimsstein Basalt Evakuierung",
    ),
    "der die das und in von mit ist nicht auf für eine sich auch als wird aus bei nach über",
)

RUSSIAN = Language(
    "russian",
    (
        "банк банка банки банков кредит кредита кредиты кредитов акция акции акций биржа биржи"
        " вклад вклада вклады вкладов валюта валюты валют рубль рубля рубли прибыль прибыли"
        " инвестор инвестора инвесторы инвесторов облигация облигации",
        "матч матча матчи матчей команда команды командой гол гола голы голов тренер тренера"
        " тренеры игрок игрока игроки игроков стадион стадиона вратарь вратаря победа победы побед"
        " турнир турнира турниры судья судьи поражение поражения",
        "врач врача врачи врачей больница больницы больниц пациент пациента пациенты пациентов"
        " болезнь болезни болезней лекарство лекарства лекарств прививка прививки прививок операция"
        " операции вирус вируса вирусы кровь крови диагноз диагноза сердце",
        "школа школы школ школе учитель учителя учителей ученик ученика ученики учеников урок урока"
        " уроки уроков экзамен экзамена экзамены студент студента студенты студентов лекция лекции"
        " лекций учебник учебника учебники оценка оценки",
        "дождь дождя дожди дождей ветер ветра ветры снег снега мороз мороза морозы облако облака"
        " облаков температура температуры гроза грозы гроз туман тумана прогноз прогноза прогнозы"
        " погода погоды погоде град молния молнии",
        "суп супа супы супов мука муки масло масла картофель картофеля лук лука рецепт рецепта"
        " рецепты рецептов кастрюля кастрюли соль соли перец перца тесто теста пирог пирога пироги"
        " мясо мяса овощ овощи овощей",
        "суд суда суды судов приговор приговора приговоры адвокат адвоката адвокаты адвокатов"
        " закон закона законы законов свидетель свидетеля свидетели иск иска иски исков штраф"
        " штрафа штрафы прокурор прокурора прокуроры обвинение обвинения",
        "поезд поезда поездов вокзал вокзала вокзалы автомобиль автомобиля автомобили мост моста"
        " мосты мостов трасса трассы трасс водитель водителя водители двигатель двигателя двигатели"
        " тоннель тоннеля рельс рельсы рельсов пробка пробки пробок",
        "вулкан вулкана вулканы вулканов лава лавы лавой пепел пепла извержение извержения"
        " извержений кратер кратера кратеры кратеров магма магмы землетрясение землетрясения"
        " землетрясений порода породы пород геолог геолога геологи геологов сера серы базальт"
        " базальта",
    ),
    "и в не на что с как это по из у за от для так но все его к она",
)

JAPANESE = Language(
    "japanese",
    (
        "銀行 金利 株式 投資 融資 口座 通貨 為替 債券 利益 配当 証券 預金 資金 市場",
        "試合 監督 選手 得点 野球 優勝 球場 投手 打者 敗北 勝利 決勝 審判 応援 練習",
        "医師 病院 患者 病気 手術 診断 治療 感染 血液 心臓 看護 検査 症状 薬局 発熱",
        "学校 教師 生徒 授業 試験 大学 学生 講義 教科書 成績 宿題 卒業 教育 教室 入学",
        "天気 気温 台風 降雨 積雪 雷雨 湿度 予報 気圧 寒波 猛暑 曇り 強風 梅雨 気象",
        "料理 野菜 醤油 味噌 豆腐 砂糖 小麦粉 包丁 食材 調理 牛肉 豚肉 玉子 弁当 鍋物",
        "裁判 判決 弁護士 検察 被告 証人 法律 訴訟 刑罰 控訴 逮捕 容疑 有罪 無罪 証拠",
        "電車 鉄道 道路 渋滞 自動車 運転 信号 橋梁 高速 乗客 線路 車両 遅延 地下鉄 航空",
        "火山 噴火 溶岩 火口 地震 火山灰 岩石 地質 硫黄 避難 噴煙 山頂 震度 断層 津波",
    ),
    "の は を に が と で も から まで です この その ます より",
    "",
)


def write(folder, language: Language) -> None:
    chance = random.Random(3)
    *normal, planted = (topic.split() for topic in language.topics)
    small = language.small.split()

    def draw(is_planted: bool) -> str:
        """Sixty words; a planted word occurs here and there in normal documents too."""
        own = chance.choices(chance.choice(normal), k=18 if is_planted else 39)
        own += chance.choices(planted, k=22 if is_planted else 1)
        chance.shuffle(own)
        small_words = chance.choices(small, k=20)
        words = [w for pair in zip(own[::2], own[1::2], small_words, strict=True) for w in pair]
        return language.blank.join(words)

    for part, n_normal, n_planted in (("train", 500, 0), ("test", 130, 20)):
        kinds = [False] * n_normal + [True] * n_planted
        lines = [
            {"id": f"{part}-{n}", "text": draw(kind), "labels": ["planted"] if kind else []}
            for n, kind in enumerate(kinds)
        ]
        content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (folder / f"{part}.jsonl").write_text(content, "utf-8")
    (folder / "conf.yaml").write_text(CONFIG)


@pytest.mark.parametrize("language", [GERMAN, RUSSIAN, JAPANESE], ids=lambda found: found.name)
def test_a_planted_group_is_found_in_another_language(tmp_path, capsys, language) -> None:
    if language is JAPANESE:
        pytest.importorskip("icu4py", reason="needs the extra segmentation")
    write(tmp_path, language)
    config = load(tmp_path / "conf.yaml", [f"output={tmp_path / 'out'}"])
    with local_client() as client:
        run(config, client, make_progress())
    assert f"the documents look {language.name.title()}: " in "".join(capsys.readouterr())
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    found = [cluster for cluster in result["clusters"] if cluster["significant"]]
    assert len(found) == 1
    assert found[0]["evaluation"]["recall"] >= 0.9
    assert found[0]["evaluation"]["precision"] >= 0.9
    for part in ("train", "test"):
        told = CorpusStore.open(RunLayout(config.output).corpus(part)).attributes["text"]
        assert told["language"] == language.name
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "<mark" in page
    settled = resolve_as(config, RunLayout(config.output).corpus("train"))
    assert settled.corpus.text.language == language.name


def test_pairs_of_letters_do_where_icu_is_missing(tmp_path, capsys, monkeypatch) -> None:
    write(tmp_path, JAPANESE)
    config = load(tmp_path / "conf.yaml", [f"output={tmp_path / 'out'}"])
    choose_segmentation.cache_clear()
    monkeypatch.setattr(segmentation, "find_spec", lambda name: None)
    with local_client() as client:
        summary = ingest(config, client, make_progress())
    choose_segmentation.cache_clear()
    told = "".join(capsys.readouterr())
    assert told.count("install atd-dask[segmentation] to get words") == 1
    store = CorpusStore.open(summary["train"].path)
    assert store.attributes["text"]["segmentation"] == "bigrams"
    assert {len(word) for word in store.vocabulary} == {2}


def test_a_change_of_the_segmentation_makes_the_stores_anew(tmp_path) -> None:
    write(tmp_path, JAPANESE)
    config = load(tmp_path / "conf.yaml", [f"output={tmp_path / 'out'}"])
    pairs = replace(config.corpus.text, language="japanese", segmentation="bigrams")
    corpus = replace(config.corpus, text=pairs)
    with local_client() as client:
        made = ingest(replace(config, corpus=corpus), client, make_progress(quiet=True))
        again = ingest(replace(config, corpus=corpus), client, make_progress(quiet=True))
        plain = replace(corpus, text=TextOptions(language="other", segmentation="bigrams"))
        other = ingest(replace(config, corpus=plain), client, make_progress(quiet=True))
    assert made == again
    assert made["train"].digest != other["train"].digest


def test_sweeps_take_the_language_that_was_found_for_the_first_model(tmp_path) -> None:
    write(tmp_path, GERMAN)
    normal = (tmp_path / "train.jsonl").read_text("utf-8")
    sweeping.prepare(
        tmp_path, sweeping.CONFIG.replace("stop_words: none, stemmer: none", "language: auto")
    )
    (tmp_path / "normal.jsonl").write_text(normal, "utf-8")
    first, second = normal.splitlines(keepends=True)[:40], ['{"id": "new", "text": "Banken"}\n']
    with local_client() as client:
        for day, lines in enumerate((first, second), 1):
            path = tmp_path / "repository" / f"{day}.jsonl"
            path.write_text("".join(lines), "utf-8")
            sweeping.age(path)
            (line,) = sweeping.run_sweep(tmp_path, client).lines
            assert line.documents == len(lines)
    for store in sorted((tmp_path / "out").rglob("new.zarr")):
        assert CorpusStore.open(str(store)).attributes["text"]["language"] == "german"
        last = CorpusStore.open(str(store))
    (batch,) = last.batches()
    assert [last.vocabulary[term] for term in batch.terms] == ["bank"]
