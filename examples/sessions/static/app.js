"use strict";

// Counts down between polls, from what the server last said was left: the clocks of
// browser and server need not agree.
(() => {
  const page = document.querySelector("main[data-idle]");
  // A page from the back/forward cache may be of a session that has ended.
  addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });
  if (!page) return;

  const $ = (id) => document.getElementById(id);
  const number = (name) => Number(page.dataset[name]);
  let left = { idle: number("idle"), absolute: number("absolute"), lifetime: number("lifetime") };
  const idleFull = left.idle;
  let since = performance.now();
  let polls = 0;
  let ended = false;

  const text = (ms) => {
    const s = Math.max(0, Math.ceil(ms / 1000));
    const two = (n) => String(n).padStart(2, "0");
    if (s >= 172800) return Math.floor(s / 86400) + " days";
    if (s >= 3600) return Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + ":" + two(s % 60);
    return Math.floor(s / 60) + ":" + two(s % 60);
  };
  const show = (name, ms, full) => {
    $(name).textContent = text(ms);
    const part = Math.min(1, Math.max(0, ms / full));
    const ring = $(name + "-ring");
    ring.style.strokeDasharray = part * 100 + " 100";
    ring.classList.toggle("low", part < 0.25);
  };
  const draw = () => {
    const passed = performance.now() - since;
    show("idle", left.idle - passed, idleFull);
    show("absolute", left.absolute - passed, left.lifetime);
  };
  const end = () => {
    ended = true;
    left.idle = left.absolute = 0;
    draw();
    document.querySelector(".columns").remove(); // what the session held
    $("ended").showModal();
  };
  const poll = async () => {
    try {
      const answer = await fetch("/status", { cache: "no-store" });
      if (answer.status === 401) return end();
      if (answer.ok) {
        left = await answer.json();
        since = performance.now();
        $("polls").textContent = ++polls;
        $("dot").className = "dot on";
      } else {
        $("dot").className = "dot off";
      }
    } catch {
      $("dot").className = "dot off";
    }
    setTimeout(poll, number("poll"));
  };
  $("ended").addEventListener("cancel", (e) => e.preventDefault());
  draw();
  setInterval(() => { if (!ended) draw(); }, 250);
  setTimeout(poll, number("poll"));
})();
