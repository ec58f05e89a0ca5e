"""The few pages that somebody sees who is not signed in: one form and one sentence; nothing is loaded for them."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from fastapi.responses import HTMLResponse

_STYLE = """
:root { color-scheme: light dark; --page: #f5f6f8; --card: #fff; --text: #1b1f27; --soft: #5d6675;
  --line: #d5dae2; --accent: #2457d6; --on-accent: #fff; --wrong: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #101318; --card: #191d24; --text: #e7eaf0; --soft: #98a2b3;
  --line: #333a46; --accent: #8fb0ff; --on-accent: #0d1530; --wrong: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem;
  background: var(--page); color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
main { width: 100%; max-width: 25rem; padding: 2rem; border: 1px solid var(--line); border-radius: .75rem;
  background: var(--card); }
.mark { margin: 0 0 1.5rem; color: var(--soft); font-weight: 600; }
h1 { margin: 0 0 1.25rem; font-size: 1.375rem; line-height: 1.3; }
label { display: block; margin-bottom: .375rem; font-weight: 600; }
input, button { width: 100%; min-height: 2.75rem; padding: 0 .75rem; border-radius: .5rem; font: inherit; }
input { border: 1px solid var(--line); background: var(--page); color: inherit; }
button { margin-top: 1rem; border: 0; background: var(--accent); color: var(--on-accent); font-weight: 600;
  cursor: pointer; }
input:focus-visible, button:focus-visible, a:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
p { margin: 1rem 0 0; color: var(--soft); }
.wrong { margin: 0 0 1rem; color: var(--wrong); }
code { font: .9375em ui-monospace, monospace; color: var(--text); }
a { color: var(--accent); }
"""
_ALLOWED = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_ALLOWED}'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # with less, the form would not say where it comes from
    "X-Content-Type-Options": "nosniff",
}


def sign_in(to: str, wrong: str = "", status: int = 200) -> HTMLResponse:
    """The page that asks for the token.

    Args:
        to: the path to go on to.
        wrong: what was wrong with the last try.
        status: of the answer.
    """
    said = f'<p class="wrong" role="alert" id="wrong">{escape(wrong)}</p>' if wrong else ""
    described = ' aria-describedby="wrong" aria-invalid="true"' if wrong else ""
    body = f"""<h1>Sign in</h1>
{said}<form method="post" action="/login">
<input type="hidden" name="to" value="{escape(to)}">
<label for="token">Token</label>
<input id="token" name="token" type="password" required autofocus autocomplete="current-password"
  spellcheck="false" autocapitalize="off"{described}>
<button>Sign in</button>
</form>
<p><code>rlark token show</code> prints it, on the machine of this platform.
<code>rlark open console</code> gives a link that needs none.</p>"""
    return _page("Sign in", body, status)


def sentence(title: str, text: str, mend: str, status: int) -> HTMLResponse:
    """A page that says why something is not possible, and what to do.

    Args:
        title: in a few words.
        text: why.
        mend: what to do.
        status: of the answer.
    """
    body = (
        f'<h1>{escape(title)}</h1>\n<p>{escape(text)}</p>\n<p>{escape(mend)}</p>\n<p><a href="/login">Sign in</a></p>'
    )
    return _page(title, body, status)


def _page(title: str, body: str, status: int) -> HTMLResponse:
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} · rlark</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<p class="mark">rlark</p>
{body}
</main>
</body>
</html>
"""
    return HTMLResponse(text, status, headers=_HEADERS)
