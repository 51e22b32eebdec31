/* SPDX-License-Identifier: Apache-2.0
 *
 * completion.c - zeroth completion: scripts for shells, which ask `zeroth completion words` what
 * may stand where Tab was pressed.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "completion.h"

static const struct zr_cmd_option options[] = { { 0 } };

const struct zr_cmd_usage zr_completion_usage = {
	.command = "completion",
	.form = { { "bash", NULL, NULL },
		  { "zsh", NULL, NULL },
		  { "fish", NULL, NULL },
		  { "words", "[WORD]...", NULL } },
	.about = "bash, zsh, fish  print the script by which that shell completes what is typed "
		 "after\n"
		 "                 `zeroth`: commands, options, plugins, values, files\n"
		 "words            prints what the last word may become, a line each: the word, a "
		 "tab,\n"
		 "                 what it means\n",
	.option = options,
	.more = "For this shell alone: source <(zeroth completion bash), likewise zsh;\n"
		"zeroth completion fish | source. `make install` puts the scripts where shells "
		"look.\n",
};

/* Bash cuts words at = and :, and wants what is behind the last one. A word that goes on gets no
 * blank. */
static const char bash[] =
	"# bash completion of zeroth; `zeroth completion bash` prints it.\n"
	"_zeroth() {\n"
	"\tlocal line=${COMP_LINE:0:COMP_POINT} words word last cut=\n"
	"\tread -ra words <<<\"$line\"\n"
	"\tif [[ $line == *[[:space:]] ]]; then words+=(''); fi\n"
	"\tlast=${words[${#words[@]} - 1]}\n"
	"\tif [[ $last == *[=:]* ]]; then cut=${last%\"${last##*[=:]}\"}; fi\n"
	"\tCOMPREPLY=()\n"
	"\twhile IFS= read -r word; do\n"
	"\t\tword=${word%%$'\\t'*}\n"
	"\t\tCOMPREPLY+=(\"${word#\"$cut\"}\")\n"
	"\tdone < <(\"${words[0]/#\\~/$HOME}\" completion words \"${words[@]:1}\" 2>/dev/null)\n"
	"\tif [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=./] ]]; then\n"
	"\t\tcompopt -o nospace 2>/dev/null\n"
	"\tfi\n"
	"}\n"
	"complete -F _zeroth zeroth\n";

static const char zsh[] =
	"#compdef zeroth\n"
	"# zsh completion of zeroth; `zeroth completion zsh` prints it.\n"
	"_zeroth() {\n"
	"\tlocal line word\n"
	"\tlocal -a whole whole_text part part_text\n"
	"\tfor line in \"${(@f)$(\"${(Q)words[1]}\" completion words "
	"\"${(@)words[2,CURRENT]}\" 2>/dev/null)}\"; do\n"
	"\t\tword=${line%%$'\\t'*}\n"
	"\t\tif [[ -z $word ]]; then\n"
	"\t\t\tcontinue\n"
	"\t\telif [[ $word == *[=./] ]]; then\n"
	"\t\t\tpart+=(\"$word\")\n"
	"\t\t\tpart_text+=(\"${line/$'\\t'/  }\")\n"
	"\t\telse\n"
	"\t\t\twhole+=(\"$word\")\n"
	"\t\t\twhole_text+=(\"${line/$'\\t'/  }\")\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tcompadd -l -d whole_text -a whole\n"
	"\tcompadd -l -S '' -d part_text -a part\n"
	"}\n"
	"if [[ $funcstack[1] == _zeroth ]]; then _zeroth \"$@\"; else compdef _zeroth zeroth; fi\n";

static const char fish[] =
	"# fish completion of zeroth; `zeroth completion fish` prints it.\n"
	"function __zeroth_words\n"
	"\tset -l typed (commandline -opc)\n"
	"\t$typed[1] completion words $typed[2..-1] (commandline -ct) 2>/dev/null\n"
	"end\n"
	"complete -c zeroth -f -a '(__zeroth_words)'\n";

int zr_cmd_completion(int argc, char **argv)
{
	static const struct {
		const char *name, *script;
	} shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };
	struct zr_cmd_operands operands;
	int rc;
	const struct zr_cmd_form *form = zr_cmd_verb(argc, argv, &zr_completion_usage, &rc);
	if (!form)
		return rc;
	if (!strcmp(form->verb, "words")) { /* which may begin with a dash */
		zr_complete_words((const char *const *)argv + 2, argc - 2, stdout);
		return 0;
	}

	rc = zr_cmd_parse(argc - 1, argv + 1, &zr_completion_usage, form, NULL, &operands);
	if (rc >= 0)
		return rc;

	size_t i = 0;
	while (strcmp(shells[i].name, form->verb))
		i++;
	fputs(shells[i].script, stdout);
	return 0;
}
