"use strict";

// Counts down between polls, by the server's clock as it last told it: the clocks of
// browser and server need not agree.
(() => {
  const page = document.getElementById("home");
  // A page from the back/forward cache may be of a session that has ended.
  addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });
  if (!page) return;
  document.documentElement.classList.add("live");

  const $ = (id) => document.getElementById(id);
  const pollEvery = Number(page.dataset.poll);
  let line = JSON.parse(page.dataset.line);
  const accessed = line.accessed; // the page itself was an access
  let since = performance.now();
  let polls = 0;
  let ended = false;
  let warned = "";

  const now = () => line.now + (performance.now() - since);
  const deadline = () => Math.min(Math.max(accessed, line.touched) + line.idle, line.cap);

  const write = (id, text) => { if ($(id).textContent !== text) $(id).textContent = text; };
  const clock = (ms) => {
    const s = Math.floor(ms / 1000);
    const two = (n) => String(n).padStart(2, "0");
    const days = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;
    if (days > 0) return `${days} d ${h}:${two(m)}:${two(s % 60)}`;
    if (h > 0) return `${h}:${two(m)}:${two(s % 60)}`;
    return `${m}:${two(s % 60)}`;
  };
  const left = (ms) => ms <= 0 ? clock(-ms) + " ago" : "in " + clock(ms + 999);
  const part = (ms) => Math.min(1, Math.max(0, ms / Math.max(1, line.cap - line.created)));
  const x = (at) => 4 + 92 * part(at - line.created) + "%";
  const moment = (at) => {
    const d = new Date(at);
    const day = d.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
    return `${day}, ${d.toLocaleTimeString("en-GB", { timeZone: "UTC" })} UTC`;
  };

  const mark = (name, at) => {
    write("at-" + name, moment(at));
    $("at-" + name).dateTime = new Date(at).toISOString();
    write("left-" + name, left(at - now()));
    $("pin-" + name).setAttribute("x", x(at));
  };
  const draw = () => {
    mark("touched", line.touched);
    mark("deadline", deadline());
    mark("stored", line.stored);
    mark("cap", line.cap);
    $("alive").setAttribute("width", 92 * part(line.stored - line.created) + "%");
    write("at-now", moment(now()));
    $("at-now").dateTime = new Date(now()).toISOString();
    $("pin-now").setAttribute("x", x(now()));
    write("reads", String(line.reads));
    write("touches", String(line.touches));
    write("saved", String(Math.max(0, line.reads - line.touches)));
    warn();
  };

  // Said once for each limit that comes near, not with each second.
  const warn = () => {
    const soon = line.idle / 4;
    let text = "";
    if (line.cap - now() < soon) {
      text = `The absolute timeout is near: you will be logged out at ${moment(line.cap)}, whatever you do.`;
    } else if (deadline() - now() < soon) {
      text = `You have been idle: from ${moment(deadline())} on you may be logged out, unless you do something.`;
    }
    if (text === warned) return;
    warned = text;
    write("warning", text);
  };

  const end = (at) => {
    ended = true;
    let why = "It was ended elsewhere: by a logout, or from another device.";
    if (at >= line.cap && line.stored >= line.cap) {
      why = `It reached its absolute timeout, ${clock(line.cap - line.created)} after the login. Nothing you do moves that.`;
    } else if (at >= line.stored) {
      why = `It was idle for too long: the idle timeout is ${clock(line.idle)}.`;
    }
    write("ended-why", why);
    page.remove(); // what the session held
    $("ended").showModal();
  };
  const poll = async () => {
    try {
      const answer = await fetch("/status", { cache: "no-store" });
      if (answer.status === 401) return end((await answer.json()).now);
      if (answer.ok) {
        line = await answer.json();
        since = performance.now();
        write("polls", String(++polls));
        $("dot").className = "dot on";
      } else {
        $("dot").className = "dot off";
      }
    } catch {
      if (!ended) $("dot").className = "dot off";
    }
    setTimeout(poll, pollEvery);
  };
  $("ended").addEventListener("cancel", (e) => e.preventDefault());
  draw();
  setInterval(() => { if (!ended) draw(); }, 250);
  setTimeout(poll, pollEvery);
})();
