"use strict";
// Adds sorting, filtering and short lists to tables that are complete without it.
(function () {
  function make(tag, attributes, text) {
    var element = document.createElement(tag);
    Object.keys(attributes).forEach(function (name) {
      element.setAttribute(name, attributes[name]);
    });
    if (text) element.textContent = text;
    return element;
  }

  function valueOf(row, column, kind) {
    var cell = row.cells[column];
    if (kind === "number") return Number(cell.dataset.value);
    return "value" in cell.dataset ? cell.dataset.value : cell.textContent.trim();
  }

  var collator = new Intl.Collator(undefined, { numeric: true });

  function sortBy(table, column, kind, sign) {
    var body = table.tBodies[0];
    var rows = Array.from(body.rows).map(function (row) {
      return { row: row, value: valueOf(row, column, kind) };
    });
    rows.sort(function (a, b) {
      return sign * (kind === "number" ? a.value - b.value : collator.compare(a.value, b.value));
    });
    rows.forEach(function (entry) { body.appendChild(entry.row); });
  }

  function addSorting(table) {
    var heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach(function (head, column) {
      var kind = head.dataset.kind;
      if (!kind) return;
      var button = make("button", { type: "button" }, head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", function () {
        var up = head.getAttribute("aria-sort") === "descending" ||
          (kind === "text" && !head.hasAttribute("aria-sort"));
        heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        sortBy(table, column, kind, up ? 1 : -1);
      });
    });
  }

  function addShortening(table) {
    var most = Number(table.dataset.show);
    var rows = table.tBodies[0].rows;
    if (rows.length <= most + 3) return;
    table.classList.add("short");
    var all = "Show all " + rows.length + " " + table.dataset.what;
    var button = make("button", { type: "button", "class": "toggle", "aria-expanded": "false" }, all);
    table.after(button);
    button.addEventListener("click", function () {
      var short = table.classList.toggle("short");
      button.setAttribute("aria-expanded", String(!short));
      button.textContent = short ? all : "Show fewer";
    });
  }

  function addFilter(table) {
    var rows = Array.from(table.tBodies[0].rows);
    if (rows.length < 2) return;
    var texts = rows.map(function (row) {
      var cells = Array.from(row.querySelectorAll(".c-id, .c-labels, .c-words"));
      return cells.map(function (cell) { return cell.textContent; }).join(" ").toLowerCase();
    });
    var box = make("div", { "class": "filter" });
    var label = make("label", {}, "Filter by document, label or word ");
    var input = make("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    var told = make("output", { "aria-live": "polite" });
    label.append(input);
    box.append(label, told);
    table.before(box);
    input.addEventListener("input", function () {
      var wanted = input.value.trim().toLowerCase().split(/\s+/);
      var left = 0;
      rows.forEach(function (row, n) {
        var fits = wanted.every(function (word) { return texts[n].includes(word); });
        row.hidden = !fits;
        left += fits;
      });
      var active = input.value.trim() !== "";
      table.classList.toggle("filtered", active);
      told.textContent = active ? left + " of " + rows.length : "";
    });
  }

  document.documentElement.classList.add("js");
  document.querySelectorAll("table[data-filter]").forEach(addFilter);
  document.querySelectorAll("table[data-sort]").forEach(addSorting);
  document.querySelectorAll("table[data-show]").forEach(addShortening);
})();
