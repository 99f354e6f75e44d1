"use strict";
(function () {
  var D = JSON.parse(document.getElementById("data").textContent);
  var tip = document.getElementById("tip");

  function esc(s) {
    return String(s).replace(/[&<>"]/g, function (c) {
      return { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }[c];
    });
  }
  function dur(s) {
    if (s === null) return "–";
    if (s < 60) return (s < 10 ? Math.round(s * 10) / 10 : Math.round(s)) + "s";
    var u = [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]];
    for (var i = 0; i < u.length; i++) {
      if (s >= u[i][0]) {
        var rest = Math.floor((s % u[i][0]) / u[i][2]);
        return Math.floor(s / u[i][0]) + u[i][1] + (rest ? rest + u[i][3] : "");
      }
    }
  }
  function clock(s) { return new Date(s * 1000).toISOString().slice(0, 16).replace("T", " "); }
  function num(v) { return v >= 100 ? Math.round(v).toLocaleString("en") : String(Math.round(v * 100) / 100); }

  function show(html, e) {
    tip.innerHTML = html;
    tip.style.display = "block";
    var x = e.clientX + 14, y = e.clientY + 14;
    if (x + tip.offsetWidth > innerWidth - 8) x = e.clientX - tip.offsetWidth - 14;
    if (y + tip.offsetHeight > innerHeight - 8) y = e.clientY - tip.offsetHeight - 14;
    tip.style.left = Math.max(x, 4) + "px";
    tip.style.top = Math.max(y, 4) + "px";
  }
  function hide() { tip.style.display = "none"; }
  function at(svg, e) {
    var m = svg.getScreenCTM();
    return { x: (e.clientX - m.e) / m.a, y: (e.clientY - m.f) / m.d };
  }

  // Lines and areas: a hair line, and every series' value under it.
  Object.keys(D.charts).forEach(function (id) {
    var svg = document.getElementById(id), r = D.charts[id];
    if (!svg || !r.box) return;
    var hair = document.createElementNS("http://www.w3.org/2000/svg", "line");
    hair.setAttribute("class", "s-muted");
    hair.setAttribute("y1", r.box[1]);
    hair.setAttribute("y2", r.box[3]);
    hair.style.display = "none";
    svg.appendChild(hair);
    svg.addEventListener("mousemove", function (e) {
      var p = at(svg, e);
      if (p.x < r.box[0] || p.x > r.box[2]) { hair.style.display = "none"; return hide(); }
      var edges = r.edges_s, first = edges[0], last = edges[edges.length - 1];
      var s = first + (p.x - r.box[0]) / (r.box[2] - r.box[0]) * (last - first);
      var lo = 0, hi = edges.length - 2;
      while (lo < hi) { var mid = (lo + hi + 1) >> 1; if (edges[mid] <= s) lo = mid; else hi = mid - 1; }
      hair.setAttribute("x1", p.x);
      hair.setAttribute("x2", p.x);
      hair.style.display = "";
      var rows = r.series.map(function (c) {
        return '<i style="background:var(--' + c.colour + ')"></i>' + esc(c.name) +
          '<span class="v">' + num(c.values[lo]) + (r.unit ? " " + r.unit : "") + "</span>";
      });
      show("<b>" + clock(s) + "</b> (+" + dur(s - first) + ")<br>" + rows.join("<br>"), e);
    });
    svg.addEventListener("mouseleave", function () { hair.style.display = "none"; hide(); });
  });

  // The timeline: what a box stands for.
  var line = document.getElementById("timeline");
  if (line) {
    line.addEventListener("mousemove", function (e) {
      var k = e.target.getAttribute && e.target.getAttribute("data-k");
      if (k === null || k === undefined) return hide();
      var b = D.boxes[+k];
      var until = b[6] === null ? "still there at the end" : "until +" + dur(b[6]);
      show("<b>" + esc(b[0] + "/" + b[1]) + "</b><br>" + (b[2] ? esc(b[2]) + "<br>" : "") + num(b[3]) + " GPU on " +
        esc(b[4]) + "<br>from +" + dur(b[5]) + " " + until, e);
    });
    line.addEventListener("mouseleave", hide);
  }

  // The heat map: which nodes, when, how much.
  var heat = document.getElementById("heat");
  if (heat && D.heat) {
    var cells = atob(D.heat.percents);
    heat.addEventListener("mousemove", function (e) {
      var p = at(heat, e), g = D.heat.grid;
      if (p.x < g[0] || p.x >= g[2] || p.y < g[1] || p.y >= g[3]) return hide();
      var col = Math.floor((p.x - g[0]) / (g[2] - g[0]) * D.heat.columns);
      var row = Math.floor((p.y - g[1]) / (g[3] - g[1]) * D.heat.rows.length);
      var v = cells.charCodeAt(row * D.heat.columns + col);
      var s = D.heat.began_s + (D.heat.ended_s - D.heat.began_s) * col / D.heat.columns;
      show("<b>" + esc(D.heat.rows[row]) + "</b><br>" + clock(s) + "<br>" +
        (v === 255 ? "not there" : v + " % allocated"), e);
    });
    heat.addEventListener("mouseleave", hide);
  }

  // The table of pods: filter by any words, sort by any column.
  var body = document.getElementById("pods"), field = document.getElementById("filter");
  var said = document.getElementById("matches"), more = document.getElementById("more");
  if (body) {
    var SHOWN = 200, limit = SHOWN, order = null, down = false;
    var texts = D.pods.map(function (p) { return p.join(" ").toLowerCase(); });
    var draw = function () {
      var words = field.value.toLowerCase().split(/\s+/).filter(Boolean), found = [];
      for (var i = 0; i < D.pods.length; i++) {
        if (words.every(function (w) { return texts[i].indexOf(w) >= 0; })) found.push(i);
      }
      if (order !== null) {
        found.sort(function (a, b) {
          var x = D.pods[a][order], y = D.pods[b][order];
          if (x === y) return a - b;
          if (x === null) return 1;
          if (y === null) return -1;
          return (x < y ? -1 : 1) * (down ? -1 : 1);
        });
      }
      body.innerHTML = found.slice(0, limit).map(function (i) {
        var p = D.pods[i];
        return '<tr><td class="name">' + esc(p[0] + "/" + p[1]) + "</td><td>" + esc(p[2]) + "</td><td>" + esc(p[3]) +
          '</td><td class="n">' + num(p[4]) + "</td><td>" + esc(p[5]) + "</td><td>" + esc(p[6]) +
          '</td><td class="n">+' + dur(p[7]) + '</td><td class="n">' + dur(p[8]) + '</td><td class="n">' + dur(p[9]) +
          '</td><td class="why">' + esc(p[10]) + "</td></tr>";
      }).join("");
      said.textContent = found.length.toLocaleString("en") + " of " + D.pods.length.toLocaleString("en") + " pods";
      more.style.display = found.length > limit ? "" : "none";
      more.textContent = "show " + Math.min(SHOWN, found.length - limit) + " more";
    };
    field.addEventListener("input", function () { limit = SHOWN; draw(); });
    more.addEventListener("click", function () { limit += SHOWN; draw(); });
    document.querySelectorAll("th.sort").forEach(function (th) {
      th.addEventListener("click", function () {
        var column = +th.getAttribute("data-c");
        down = order === column ? !down : column >= 7 || column === 4;
        order = column;
        document.querySelectorAll("th.sort").forEach(function (o) { o.removeAttribute("aria-sort"); });
        th.setAttribute("aria-sort", down ? "descending" : "ascending");
        draw();
      });
    });
    draw();
  }

  // Light or dark: as the system says, until somebody presses the button.
  var button = document.getElementById("theme"), root = document.documentElement;
  button.addEventListener("click", function () {
    var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
})();
